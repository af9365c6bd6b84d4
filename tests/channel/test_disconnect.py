"""How conversations end."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel
from support.options import CHANNEL
from support.packets import properties, publish
from support.wire import wire


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_disconnect_closes_without_an_answer(version: int) -> None:
    kernel = Kernel()
    peer = kernel.connect(version=version)
    peer.disconnect()
    assert peer.closed()
    assert peer.received() == []
    assert kernel.reports == []
    assert kernel.context.channels.statistics() == {"connections.open": 0, "live_connections.count": 0}
    assert len(kernel.sessions) == 0


def test_answers_to_what_came_before_disconnect_are_sent() -> None:
    peer = Kernel().connect()
    peer.send(publish("t", b"x", 1, 1), p.Disconnect(0, properties()))
    assert peer.heard() == ["PUBACK #1 0x10"]
    assert peer.closed()


def test_nothing_behind_disconnect_is_taken() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t")
    kernel.connect().send(p.Disconnect(0, properties()), publish("t", b"x"))
    assert sub.heard() == []


def test_disconnect_may_not_give_a_session_life_that_had_none() -> None:
    peer = Kernel().connect()
    peer.disconnect(session_expiry_interval=60)
    assert peer.heard() == ["DISCONNECT 0x82"]
    assert peer.closed()


def test_disconnect_with_an_expiry_of_0_where_there_was_none() -> None:
    peer = Kernel().connect()
    peer.disconnect(session_expiry_interval=0)
    assert peer.heard() == []
    assert peer.closed()


@cases(("version", "said"), [(p.V5, ["DISCONNECT 0x8b"]), (p.V3_1_1, [])])
def test_the_broker_shuts_down(version: int, said: list[str]) -> None:
    kernel = Kernel()
    peer, idle = kernel.connect(version=version), kernel.peer()
    kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
    kernel.run()
    assert peer.heard() == said
    assert peer.closed()
    assert idle.received() == []
    assert idle.closed()


@cases(("version", "said"), [(p.V5, ["DISCONNECT 0x95"]), (p.V3_1_1, [])])
def test_packets_beyond_the_brokers_limit(version: int, said: list[str]) -> None:
    kernel = Kernel(replace(CHANNEL, max_packet_size=1000))
    peer = kernel.connect(version=version)
    room = 1000 - 3 - 3 - (1 if version == p.V5 else 0)
    peer.publish("t", b"x" * room)
    assert not peer.closed()
    peer.send_bytes(wire(f"30 # \"t\" {{}} '{'x' * 994}'")[:10])  # refused before it is there
    assert peer.heard() == said
    assert peer.closed()


@cases("kind", ["20 # 00 00 {}", "90 # 0001 {} 00", "b0 # 0001 {} 00", "d0 #", 'f0 # 18 { 15 "x" }'])
def test_packets_that_are_not_for_a_broker(kind: str) -> None:
    kernel = Kernel()
    peer = kernel.connect()
    peer.send_bytes(wire(kind))
    assert peer.heard() == ["DISCONNECT 0x82"]
    assert peer.closed()


def test_an_error_ends_only_its_own_connection() -> None:
    kernel = Kernel()
    good, bad = kernel.connect("good"), kernel.connect("bad")
    good.subscribe("t")
    bad.send(publish("t", b"before"), publish("t/+", b"bad"), publish("t", b"behind"))
    assert good.heard() == ["PUBLISH t 'before' q0"]
    assert not good.closed()
    assert kernel.reports == ["the topic name 't/+' holds a wildcard"]


@cases(
    ("how", "reason"),
    [
        ("disconnect", "normal"),
        ("drop", "tcp_closed"),
        ("garbage", "malformed_packet"),
        ("silence", "keepalive_timeout"),
    ],
)
def test_the_reason_that_callbacks_hear(how: str, reason: str) -> None:
    kernel = Kernel()
    heard: list[str] = []
    kernel.broker.hooks.point(hooks.CLIENT_DISCONNECTED).add(
        lambda client, reason, *_: heard.append(f"{client.clientid} {reason}")
    )
    peer = kernel.connect(keepalive_s=10)
    if how == "disconnect":
        peer.disconnect()
    elif how == "drop":
        peer.drop()
    elif how == "garbage":
        peer.send_bytes(b"\0\0")
    else:
        kernel.advance(60)
    peer.drop()
    assert heard == [f"c {reason}"]


@cases("how", ["disconnect", "garbage", "silence"])
def test_a_peer_that_does_not_read_its_last_words_is_cut(how: str) -> None:
    kernel = Kernel()
    peer = kernel.connect(keepalive_s=10)
    peer.wire.stuck = True
    peer.congest()
    if how == "disconnect":
        peer.disconnect()
    elif how == "garbage":
        peer.send_bytes(b"\0\0")
    else:
        kernel.advance(16)
    assert peer.closed()
    kernel.advance(10)
    assert not peer.lost
    kernel.advance(1)
    assert kernel.context.channels.statistics() == {"connections.open": 0, "live_connections.count": 0}


def test_ping() -> None:
    peer = Kernel().connect()
    peer.send(p.Ping(p.PINGREQ), p.Ping(p.PINGREQ))
    assert peer.heard() == ["PINGRESP", "PINGRESP"]  # [MQTT-3.12.4-1]


def test_counters() -> None:
    kernel = Kernel()
    peer = kernel.connect()
    peer.subscribe("t")
    peer.publish("t", b"x")
    peer.send_bytes(b"\0\0")
    counters = kernel.broker.counters.snapshot()
    assert counters["messages.received"] == counters["messages.delivered"] == 1
    assert counters["packets.protocol_errors"] == 1
    assert counters["connections.accepted"] == counters["connections.closed"] == 1
    assert counters["bytes.sent"] == len(peer.wire.written)
