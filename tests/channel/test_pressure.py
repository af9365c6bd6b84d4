"""What clients are told while memory is short."""

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel


def short(kernel: Kernel, *heavy: str) -> None:
    """As the node does from the third stage on."""
    pressure = kernel.broker.pressure
    pressure.is_on = pressure.refuses_growth = True
    pressure.shed_for_memory(True)
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
    large, small, reader = (kernel.connect(name) for name in ("large", "small", "reader"))
    reader.subscribe("r/+")
    large.publish("r/1", b"x", 1, 1, retain=True)
    large.publish("r/0", b"x", 1, 2, retain=True)
    reader.skip()
    short(kernel, "large")
    large.publish("r/2", b"x", 1, 3, retain=True)
    large.publish("r/0", b"y", 1, 4, retain=True)  # that takes no more than before
    large.publish("r/1", b"", 1, 5, retain=True)  # that gives room
    small.publish("r/3", b"x", 1, 6, retain=True)
    assert [line.split(" 0x10")[0] for line in large.heard()] == [f"PUBACK #{number}" for number in range(1, 6)]
    assert reader.heard() == ["PUBLISH r/2 'x' q0", "PUBLISH r/0 'y' q0", "PUBLISH r/1 '' q0", "PUBLISH r/3 'x' q0"]
    assert len(kernel.retainer) == 2  # r/0 and r/3
    assert kernel.broker.pressure.growth_refused == 1
    assert kernel.retainer.statistics()["retained.dropped.memory"] == 1
    assert kernel.broker.pressure.noted.keys() == {"small"}


def test_what_is_replaced_and_cleared_is_not_held() -> None:
    kernel = Kernel()
    kernel.broker.pressure.is_on = True
    sensor, burst = kernel.connect("sensor"), kernel.connect("burst")
    for number in range(1, 100):
        sensor.publish("s", bytes(10_000 + number % 2), 1, number, retain=True)
        burst.publish("b", bytes(10_000), 0, retain=True)
        burst.publish("b", b"", 0, retain=True)
    noted = kernel.broker.pressure.noted
    assert 10_000 <= noted["sensor"] <= 10_100
    assert noted["burst"] == 0


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
    session.sender.shed_qos0()
    short(kernel)
    pub.publish("t", b"2", 0)
    pub.publish("t", b"3", 1, 2)
    assert kernel.broker.pressure.qos0_shed == 2
    back = kernel.peer()
    back.connect("sub", clean_start=False, session_expiry_interval=60)
    assert [packet.payload for packet in back.received() if isinstance(packet, p.Publish)] == [b"1", b"3"]


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_no_client_is_let_in_at_the_end(version: int) -> None:
    kernel = Kernel()
    kernel.broker.pressure.refuses_connections = True
    peer = kernel.peer(version)
    peer.connect("c")
    assert peer.take(p.Connack).code == (rc.QUOTA_EXCEEDED if version == p.V5 else rc.SERVER_UNAVAILABLE)
    assert peer.closed()
    assert kernel.broker.pressure.connections_refused == 1


@cases("clean_start", [False, True])
def test_who_drains_its_queue_is_let_in_at_the_end(clean_start: bool) -> None:
    kernel = Kernel()
    for clientid, topic in (("waited-for", "t"), ("idle", "u")):
        peer = kernel.connect(clientid, session_expiry_interval=60)
        peer.subscribe(topic, 1)
        peer.drop()
    kernel.connect("pub").publish("t", b"1", 1, 1)
    short(kernel)
    kernel.broker.pressure.refuses_connections = True
    refused = kernel.peer()
    refused.connect("idle", clean_start=False, session_expiry_interval=60)
    assert refused.take(p.Connack).code == rc.QUOTA_EXCEEDED
    back = kernel.peer()
    back.connect("waited-for", clean_start=clean_start, session_expiry_interval=60)
    session = kernel.sessions.held("waited-for")
    heard = ["CONNACK 0x00"] if clean_start else ["CONNACK 0x00 present", "PUBLISH t '1' q1 #1"]
    assert back.heard() == heard
    assert session is None or session.sender.queued_count == 0


@cases("expiry_s", [0, 60])
def test_closing_frees_the_queue_of_a_session_that_ends_with_it_and_no_other(expiry_s: int) -> None:
    kernel = Kernel()
    peer = kernel.connect("sub", session_expiry_interval=expiry_s, receive_maximum=1)
    peer.subscribe("t", 1)
    publisher = kernel.connect("pub")
    for number in range(10):
        publisher.publish("t", bytes(10_000), 1, number + 1)
    peer.skip()
    channel, session = kernel.context.channels.find("sub"), kernel.sessions.held("sub")
    assert channel is not None
    assert session is not None
    assert session.sender.queued_count == 9
    assert (channel.buffered_bytes() > 90_000) == (expiry_s == 0)
    if expiry_s:
        assert channel.buffered_bytes() == 0


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
