"""Erasing what a node keeps of a client, of a topic filter, or of before a time: what is asked, and answers."""

import msgspec

from heliograph.rpc.asks import ACTS, ONE, Ask
from heliograph.rpc.methods import Args


class ErasureWanted(Args, frozen=True):
    """What is erased; one of the three is given.

    Attributes:
        topic: A topic filter.
        before: What is older, in microseconds since the epoch.
    """

    clientid: str | None = None
    topic: str | None = None
    before: int | None = None


class ErasureMade(msgspec.Struct, frozen=True):
    """What a running node erased, and what a stopped one can erase.

    Attributes:
        messages: By database.
        records: Sessions, retained and delayed messages.
        left_messages: Those that are there still, by database: they came meanwhile, or were offloaded.
        left_offloaded: Of them, those in offloaded files.
        left_records: By database.
        stays: What no erasure reaches, and why.
        still_named: Files of the data directory whose bytes have the client id or the topic.
        record: The file of the signed record.
        held_ms: How long it held the event loop at most.
    """

    messages: dict[str, int]
    records: dict[str, int]
    left_messages: dict[str, int]
    left_offloaded: int
    left_records: dict[str, int]
    left_audit_lines: int
    left_dead_letters: int
    stays: list[str]
    still_named: list[str]
    record: str
    held_ms: float

    @property
    def left(self) -> int:
        """How much of it there is still."""
        counts = (*self.left_messages.values(), *self.left_records.values())
        return sum(counts) + self.left_audit_lines + self.left_dead_letters


DATA_ERASE = Ask("data.erase", ErasureWanted, ErasureMade, ONE, ACTS, secrets=frozenset({"clientid", "topic"}))
