"""What clients are told while memory is short."""

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.kernel import Kernel


def short(kernel: Kernel, *heavy: str) -> None:
    """As the node does from the third stage on."""
    pressure = kernel.broker.pressure
    pressure.is_on = pressure.sheds_qos0 = pressure.refuses_growth = True
    pressure.heavy = dict.fromkeys(heavy, 1)


def test_who_holds_most_gets_no_more_subscriptions_and_others_do() -> None:
    kernel = Kernel()
    large, small = kernel.connect("large"), kernel.connect("small")
    assert large.subscribe("a") == [0]
    short(kernel, "large")
    assert large.subscribe("b") == [rc.QUOTA_EXCEEDED]
    assert large.subscribe("a") == [0]  # what it has it keeps
    assert small.subscribe("b") == [0]
    assert kernel.broker.pressure.growth_refused == 1


def test_who_holds_most_retains_no_more_and_others_do() -> None:
    kernel = Kernel()
    large, small = kernel.connect("large"), kernel.connect("small")
    large.publish("r/1", b"x", 1, 1, retain=True)
    short(kernel, "large")
    large.publish("r/2", b"x", 1, 2, retain=True)
    large.publish("r/1", b"", 1, 3, retain=True)  # that gives room
    small.publish("r/3", b"x", 1, 4, retain=True)
    assert [line.split(" 0x10")[0] for line in large.heard()] == ["PUBACK #1", "PUBACK #2 0x97", "PUBACK #3"]
    assert len(kernel.retainer) == 1
    assert kernel.broker.pressure.noted == {"large": 11, "small": 11}


def test_no_session_begins_that_outlives_its_connection() -> None:
    kernel = Kernel()
    kernel.connect("before", session_expiry_interval=60).drop()
    short(kernel)
    refused = kernel.peer()
    refused.connect("late", session_expiry_interval=60)
    assert refused.take(p.Connack).code == rc.QUOTA_EXCEEDED
    kernel.connect("late")
    back = kernel.peer()
    back.connect("before", clean_start=False, session_expiry_interval=60)
    assert back.take(p.Connack).code == rc.SUCCESS


def test_qos_0_waits_for_nobody_and_acknowledged_messages_do() -> None:
    kernel = Kernel()
    peer = kernel.connect("sub", session_expiry_interval=60)
    peer.subscribe("t", 1)
    peer.drop()
    pub = kernel.connect("pub")
    pub.publish("t", b"0", 0)
    pub.publish("t", b"1", 1, 1)
    session = kernel.sessions.held("sub")
    assert session is not None
    session.shed_qos0()
    short(kernel)
    pub.publish("t", b"2", 0)
    pub.publish("t", b"3", 1, 2)
    assert kernel.broker.pressure.qos0_shed == 2
    back = kernel.peer()
    back.connect("sub", clean_start=False, session_expiry_interval=60)
    assert [packet.payload for packet in back.received() if isinstance(packet, p.Publish)] == [b"1", b"3"]


@pytest.mark.parametrize("version", [p.V3_1, p.V3_1_1, p.V5])
def test_no_client_is_let_in_at_the_end(version: int) -> None:
    kernel = Kernel()
    kernel.broker.pressure.refuses_connections = True
    peer = kernel.peer(version)
    peer.connect("c")
    assert peer.take(p.Connack).code == (rc.QUOTA_EXCEEDED if version == p.V5 else rc.SERVER_UNAVAILABLE)
    assert peer.closed()
    assert kernel.broker.pressure.connections_refused == 1


def test_a_connection_that_buffers_much_is_cut_and_told_where_it_reads() -> None:
    kernel = Kernel()
    reads, stuck = kernel.connect("reads"), kernel.connect("stuck")
    stuck.congest()
    stuck.wire.stuck = True
    stuck.send_bytes(b"\xc0\x00" * 100)
    for name, peer in (("reads", reads), ("stuck", stuck)):
        channel = kernel.context.channels.find(name)
        assert channel is not None
        assert channel.buffered_bytes() == (200 if name == "stuck" else 0)
        channel.cut(rc.QUOTA_EXCEEDED, "memory is short")
        kernel.run()
        assert peer.closed()
    assert reads.heard() == ["DISCONNECT 0x97"]
    assert stuck.heard() == []
