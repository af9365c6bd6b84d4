"""The fuzz targets by name, and the inputs that each begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fuzz import conversation, decoder, filters, handshake, websocket
from fuzz.engine import corpus
from fuzz.mutation import Mutator
from mqtt.bank import CASES

CORPUS: Final = Path(__file__).parent / "corpus"
_SEED_BYTES_MAX: Final = 400


@dataclass(frozen=True)
class Target:
    """One target.

    Args:
        run: Takes one input; whatever it raises is a finding.
        is_packets: Whether an input is, behind its first byte, a stream of MQTT packets.
    """

    name: str
    run: Callable[[bytes], None]
    is_packets: bool = False

    @property
    def corpus(self) -> list[bytes]:
        """The inputs that it begins with: those in the repository, and the bank of packets where it takes packets."""
        found = corpus(CORPUS / self.name)
        return found + bank() if self.is_packets else found or [b"\x00"]

    def mutator(self, seed: int) -> Mutator:
        """A maker of inputs for it."""
        return Mutator(self.corpus, seed, is_packets=self.is_packets)


def bank() -> list[bytes]:
    """The packets of the bank as inputs of the decoder, each in its first version."""
    return [
        bytes((decoder.VERSIONS.index(case.versions[0]),)) + case.data
        for case in CASES
        if len(case.data) <= _SEED_BYTES_MAX
    ]


TARGETS: Final = {
    target.name: target
    for target in (
        Target("decoder", decoder.run, is_packets=True),
        Target("conversation", conversation.run),
        Target("filters", filters.run),
        Target("websocket", websocket.run),
        Target("handshake", handshake.run),
    )
}
