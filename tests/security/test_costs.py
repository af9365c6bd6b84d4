"""The table of docs/security.md says what a state costs that a client can make: many of each are made and measured."""

import gc
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from heliograph.mqtt import packets as p
from heliograph.session import awaiting_rel
from heliograph.session.awaiting_rel import AwaitingRel
from heliograph.session.options import SessionOptions
from support.groups import GroupKernel
from support.kernel import Kernel, Peer
from support.services import Node

PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"
COUNT: Final = 2000
# The figures are of compiled code: interpreted objects have a dictionary of attributes each.
TOLERANCE: Final = 1.1 if awaiting_rel.__file__.endswith(".so") else 2.5

Make = Callable[[], object]


def costs() -> dict[str, int]:
    """The table: what, and how many bytes one costs at the most."""
    table = PAGE.read_text().split("<!-- costs -->")[1]
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) \|", table, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in rows}


def _subscribe(peer: Peer, filters: list[str]) -> None:
    for first in range(0, len(filters), 500):
        some = filters[first : first + 500]
        peer.send_subscribe(*[p.SubscribeEntry(each, 1, False, False, 2) for each in some])
        peer.kernel.run()
        peer.skip()


def _subscriptions(_: Path) -> Make:
    peer = Kernel().connect()
    return lambda: _subscribe(peer, [f"device/{number}/temperature" for number in range(COUNT)])


def _groups(path: Path) -> Make:
    kernel = GroupKernel(path)
    peer = kernel.come("c")

    def make() -> None:
        _subscribe(peer, [f"$share/g{number}/t/#" for number in range(COUNT)])
        kernel.advance(2)

    return make


def _identifiers(_: Path) -> Make:
    options = SessionOptions(max_awaiting_rel=0)
    kept = [AwaitingRel(options), AwaitingRel(options)]

    def make() -> None:
        for number in range(COUNT):
            kept[number % 2].add(300 + number, 100_000 + number, 1_000_000 + 20_000 * number)

    return make


def _waiting(_: Path) -> Make:
    kernel = Kernel(session_options=SessionOptions(max_mqueue_len=0))
    sub = kernel.connect("sub", session_expiry_interval=60)
    sub.subscribe("t", 1)
    sub.drop()
    pub = kernel.connect("pub")

    def make() -> None:
        for number in range(COUNT):
            pub.publish("t", b"", 1, number + 1)
            pub.skip()

    return make


def _delayed(_: Path) -> Make:
    node = Node()
    peer = node.connect("pub")

    def make() -> None:
        for _ in range(COUNT):
            peer.publish("$delayed/600/t", b"")

    return make


def _sessions(_: Path) -> Make:
    kernel = Kernel()

    def make() -> None:
        for number in range(COUNT):
            peer = kernel.connect(f"client-{number}", session_expiry_interval=600)
            peer.subscribe(f"device/{number}", 1)
            peer.drop()
            kernel.run()

    return make


MAKERS: Final[dict[str, Callable[[Path], Make]]] = {
    "subscription": _subscriptions,
    "durable shared subscription": _groups,
    "open QoS 2 identifier": _identifiers,
    "message that waits, beside its packet": _waiting,
    "delayed message, beside its packet": _delayed,
    "session in memory with a subscription": _sessions,
}


def test_every_row_is_measured() -> None:
    assert set(costs()) == set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_one_costs_what_the_table_says(name: str, tmp_path: Path) -> None:
    make = MAKERS[name](tmp_path)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    make()
    gc.collect()
    each = (tracemalloc.get_traced_memory()[0] - before) / COUNT
    tracemalloc.stop()
    stated = costs()[name]
    assert each <= TOLERANCE * stated, f"{each:.0f} bytes"
    assert each >= 0.3 * stated, f"{each:.0f} bytes"
