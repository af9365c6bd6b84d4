"""The table of docs/security.md says what a state costs that a client can make: many of each are made and measured."""

import gc
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from fuzz.engine import resident_bytes
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.session import awaiting_rel
from heliograph.session.awaiting_rel import AwaitingRel
from security.crowd import Crowd
from support.durable import DurableKernel, FakeState
from support.groups import GroupKernel
from support.kernel import Kernel, Peer
from support.options import SESSION
from support.packets import properties, publish
from support.process import NodeProcess
from support.services import Node

PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"
COUNT: Final = 2000
AWAKE_COUNT: Final = COUNT // 4  # making one takes ten times as long as any other
CONNECT: Final = encode_packet(p.Connect(p.V5, "", True, 0, None, None, None, properties()), p.V5)
# The figures are of compiled code: interpreted objects have a dictionary of attributes each.
TOLERANCE: Final = 1.1 if awaiting_rel.__file__.endswith(".so") else 2.5

Make = Callable[[], object]


def costs() -> dict[str, int]:
    """The table: what, and how many bytes one costs at the most."""
    table = PAGE.read_text().split("<!-- costs -->")[1]
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) \|", table, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in rows}


def _clear(*disks: FakeState) -> None:
    """What lies on the disk costs no memory."""
    for disk in disks:
        disk.durable.clear()
        disk.values.clear()


def _subscribe(peer: Peer, filters: list[str]) -> None:
    for first in range(0, len(filters), 500):
        some = filters[first : first + 500]
        peer.send_subscribe(*[p.SubscribeEntry(each, 1, False, False, 2) for each in some])
        peer.kernel.run()
        peer.skip()


def _subscribed(template: str) -> Callable[[Path], Make]:
    """Many subscriptions of one client to filters with a number in them."""

    def maker(_: Path) -> Make:
        peer = Kernel().connect()
        return lambda: _subscribe(peer, [template.format(number) for number in range(COUNT)])

    return maker


def _durable_subscriptions(path: Path) -> Make:
    kernel = DurableKernel(path)
    peer = kernel.come("c")

    def make() -> None:
        _subscribe(peer, [f"device/{number}/temperature" for number in range(COUNT)])
        kernel.advance(2)
        _clear(kernel.state)

    return make


def _groups(path: Path, *, has_stream: bool = False) -> Make:
    kernel = GroupKernel(path)
    if has_stream:
        kernel.come("pub").publish("t/1", b"", 1)
        kernel.advance(2)
    peer = kernel.come("c")

    def make() -> None:
        _subscribe(peer, [f"$share/g{number}/t/#" for number in range(COUNT)])
        kernel.advance(2)
        _clear(kernel.state, kernel.group_state)

    return make


def _groups_that_were_awake(path: Path) -> Make:
    """Each has delivered a message, which its client has acknowledged, and sleeps again."""
    kernel = GroupKernel(path, session_options=replace(SESSION, max_inflight=AWAKE_COUNT))
    pub = kernel.come("pub")
    peer = kernel.come("c")

    def make() -> None:
        _subscribe(peer, [f"$share/g{number}/t/#" for number in range(AWAKE_COUNT)])
        pub.publish("t/1", b"", 1)
        got = [packet for packet in peer.received() if isinstance(packet, p.Publish)]
        assert len(got) == AWAKE_COUNT
        peer.send(*(p.Ack(p.PUBACK, packet.packet_id, 0) for packet in got))
        for _ in range(20):
            kernel.advance(1)
        assert kernel.groups.statistics()["shared_groups.awake"] == 0
        pub.skip()
        peer.skip()
        _clear(kernel.state, kernel.group_state)

    return make


def _identifiers(_: Path) -> Make:
    options = replace(SESSION, max_awaiting_rel=0)
    kept = [AwaitingRel(options), AwaitingRel(options)]

    def make() -> None:
        for number in range(COUNT):
            kept[number % 2].add(300 + number, 100_000 + number, 1_000_000 + 20_000 * number)

    return make


def _waiting(_: Path) -> Make:
    kernel = Kernel(session_options=replace(SESSION, max_mqueue_len=0))
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


def _wills(_: Path) -> Make:
    kernel = Kernel()

    def make() -> None:
        for number in range(COUNT):
            will = p.Will("t", b"", 1, False, properties(will_delay_interval=300))
            kernel.connect(f"client-{number}", session_expiry_interval=600, will=will).drop()
            kernel.run()

    return make


def _retained(_: Path) -> Make:
    peer = Kernel().connect()

    def make() -> None:
        for number in range(COUNT):
            peer.publish(f"device/{number}/temperature", b"1", retain=True)

    return make


def _routes(_: Path) -> Make:
    peer = Kernel(routes_max=2 * COUNT).connect()

    def make() -> None:
        for number in range(COUNT):
            peer.publish(f"device/{number}/temperature")

    return make


def _aliases(_: Path) -> Make:
    kernel = Kernel()
    peer = kernel.connect()

    def make() -> None:
        for number in range(COUNT):
            peer.publish(f"device/{number}/temperature", topic_alias=number + 1)
        kernel.broker.router.keep_small(True)

    return make


def _parts(_: Path) -> Make:
    kernel = Kernel()
    peers = [kernel.connect(f"c{number}") for number in range(4)]

    def make() -> None:
        for peer in peers:
            peer.send_bytes(publish("t", bytes(1_000_000)).data[: COUNT // 4 << 9])
            for _ in range(COUNT // 4):
                peer.send_bytes(bytes(512))

    return make


MAKERS: Final[dict[str, Callable[[Path], Make]]] = {
    "subscription": _subscribed("device/{}/temperature"),
    "subscription with a wildcard": _subscribed("device/+/{}"),
    "durable subscription": _durable_subscriptions,
    "shared subscription": _subscribed("$share/g{}/t/#"),
    "durable shared subscription": _groups,
    "durable shared subscription that a stream matches": partial(_groups, has_stream=True),
    "durable shared subscription that has delivered a message": _groups_that_were_awake,
    "open QoS 2 identifier": _identifiers,
    "message that waits, beside its packet": _waiting,
    "delayed message, beside its packet and client id": _delayed,
    "session in memory with a subscription": _sessions,
    "session in memory with a will that waits": _wills,
    "retained message in memory, beside its packet": _retained,
    "topic alias, beside its topic": _aliases,
    "topic that was published to": _routes,
    "KiB of a packet that is not whole": _parts,
}


COUNTS: Final = {"durable shared subscription that has delivered a message": AWAKE_COUNT}
CONNECTION: Final = "connection of a client, with its session"


def test_every_row_is_measured() -> None:
    assert set(costs()) == {*MAKERS, CONNECTION}


@pytest.mark.parametrize("name", MAKERS)
def test_one_costs_what_the_table_says(name: str, tmp_path: Path) -> None:
    make = MAKERS[name](tmp_path)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    make()
    gc.collect()
    each = (tracemalloc.get_traced_memory()[0] - before) / COUNTS.get(name, COUNT)
    tracemalloc.stop()
    stated = costs()[name]
    assert each <= TOLERANCE * stated, f"{each:.0f} bytes"
    assert each >= 0.3 * stated, f"{each:.0f} bytes"


@pytest.mark.service
def test_a_connection_costs_what_the_table_says(tmp_path: Path) -> None:
    # What the first connections cost is paid once; they stay, so that the others do not use what these gave back.
    with (
        NodeProcess(tmp_path, "durable_storage { flight.enable = false, messages.topics = [] }") as node,
        Crowd(node.port, COUNT // 10, CONNECT) as first,
    ):
        first.hear(COUNT // 10)
        before = resident_bytes(node.pid)
        with Crowd(node.port, COUNT // 4, CONNECT) as crowd:
            crowd.hear(COUNT // 4)
            each = (resident_bytes(node.pid) - before) / (COUNT // 4)
    stated = costs()[CONNECTION]
    assert 0.3 * stated <= each <= TOLERANCE * stated, f"{each:.0f} bytes"
