"""How long a connection may be silent."""

from dataclasses import replace

from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Kernel
from support.options import CHANNEL
from support.packets import properties, publish
from support.wire import wire

CONNECT = wire('10 # "MQTT" 05 02 0000 {} "c"')


def test_a_connection_without_connect_is_closed_after_the_idle_timeout() -> None:
    kernel = Kernel(replace(CHANNEL, idle_timeout_us=15_000_000))
    peer = kernel.peer()
    kernel.advance(15)
    assert not peer.closed()
    kernel.advance(1)
    assert peer.closed()
    assert peer.received() == []


def test_a_connect_that_drips_in_is_not_waited_for() -> None:
    kernel = Kernel(replace(CHANNEL, idle_timeout_us=15_000_000))
    peer = kernel.peer()
    for byte in CONNECT[:-1]:
        peer.send_bytes(bytes([byte]))
        kernel.advance(2)
    assert peer.closed()


def test_no_idle_timeout() -> None:
    kernel = Kernel(replace(CHANNEL, idle_timeout_us=0))
    peer = kernel.peer()
    kernel.advance(10_000)
    assert not peer.closed()


@cases(("version", "said"), [(p.V5, ["DISCONNECT 0x8d"]), (p.V3_1_1, [])])
def test_a_client_that_is_silent_for_one_and_a_half_keepalives(version: int, said: list[str]) -> None:
    kernel = Kernel()
    peer = kernel.connect(version=version, keepalive_s=10)
    kernel.advance(15)
    assert not peer.closed()
    kernel.advance(0.1)
    assert peer.closed()
    assert peer.heard() == said


def test_any_packet_keeps_a_client_alive() -> None:
    kernel = Kernel()
    peer = kernel.connect(keepalive_s=10)
    for number in range(5):
        kernel.advance(14)
        peer.send(p.Ping(p.PINGREQ) if number % 2 else publish("t"))
    assert peer.heard() == ["PINGRESP"] * 2
    assert not peer.closed()


def test_a_packet_that_drips_in_does_not() -> None:
    kernel = Kernel()
    peer = kernel.connect(keepalive_s=10)
    peer.send_bytes(wire("30 # \"t\" {} 'xxxxxxxxxxxxxxxxxxxx'")[:6])
    for _ in range(8):
        kernel.advance(2)
        peer.send_bytes(b"x")
    assert peer.heard() == ["DISCONNECT 0x8d"]  # [MQTT-3.1.2-22]


def test_keepalive_0_is_for_ever() -> None:
    kernel = Kernel()
    peer = kernel.connect(keepalive_s=0)
    kernel.advance(10**6)
    assert not peer.closed()


def test_the_operators_keepalive_holds_instead_of_the_clients() -> None:
    kernel = Kernel(replace(CHANNEL, server_keepalive_s=4, keepalive_multiplier_percent=200))
    peer = kernel.connect(keepalive_s=1000)
    kernel.advance(8)
    assert not peer.closed()
    kernel.advance(1)
    assert peer.closed()


def test_time_in_which_the_broker_does_not_read_does_not_count() -> None:
    kernel = Kernel(stored=["#"])
    peer = kernel.connect(keepalive_s=10)
    kernel.sink.full = True
    peer.publish("t")
    assert peer.paused()
    kernel.advance(100)
    assert not peer.closed()
    kernel.sink.full = False
    kernel.commit()
    assert not peer.paused()
    kernel.advance(14)
    assert not peer.closed()
    kernel.advance(2)
    assert peer.closed()


HOUR_US = 3_600_000_000


def test_a_wall_clock_that_is_set_ends_nobody_and_keeps_nobody() -> None:
    kernel = Kernel()
    watcher = kernel.connect("watcher")
    watcher.subscribe("will/#")
    will = p.Will("will/away", b"x", 0, False, properties(will_delay_interval=30))
    kernel.connect("away", will=will, session_expiry_interval=60).drop()
    silent = kernel.connect("silent", keepalive_s=10)
    kernel.set_wall_clock(10 * HOUR_US)
    kernel.advance(14)
    assert not silent.closed()
    assert watcher.received() == []
    assert kernel.sessions.find("away") is not None
    kernel.set_wall_clock(-10 * HOUR_US)
    kernel.advance(2)
    assert silent.closed()
    kernel.advance(15)
    assert watcher.take(p.Publish).topic == b"will/away"
    kernel.advance(31)
    assert kernel.sessions.find("away") is None


@cases("ahead_us", [-24 * HOUR_US, 24 * HOUR_US, 0])
def test_messages_expire_in_their_time_when_the_clock_is_set_back(ahead_us: int) -> None:
    kernel = Kernel()
    sub = kernel.connect("sub", session_expiry_interval=600)
    sub.subscribe("t", 1)
    sub.drop()
    kernel.set_wall_clock(ahead_us)
    kernel.advance(3)
    kernel.connect("pub").publish("t", b"short", 1, message_expiry_interval=2, retain=True)
    kernel.connect("pub").publish("t", b"long", 1, message_expiry_interval=60)
    kernel.set_wall_clock(0)
    kernel.advance(1)
    kernel.advance(3)
    sub = kernel.peer()
    sub.connect("sub", clean_start=False)
    assert [say for say in sub.heard() if say.startswith("PUBLISH")] == ["PUBLISH t 'long' q1 #1"]
    late = kernel.connect("late")
    late.subscribe("t")
    assert late.heard() == []
