"""What clients that connect are told while the node is overloaded."""

from dataclasses import replace

from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel
from support.options import CHANNEL

PROTECTED = replace(CHANNEL, overload_delay_us=100_000, overload_refuses=True)


def overloaded(options: ChannelOptions = PROTECTED) -> Kernel:
    kernel = Kernel(options)
    kernel.broker.pressure.holds_connections = True
    return kernel


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_a_connect_waits_and_is_refused_if_the_overload_goes_on(version: int) -> None:
    kernel = overloaded()
    peer = kernel.peer(version)
    peer.connect("c")
    assert peer.heard() == []
    kernel.advance(0.2)
    assert peer.take(p.Connack).code == (rc.QUOTA_EXCEEDED if version == p.V5 else rc.SERVER_UNAVAILABLE)
    assert peer.closed()
    pressure = kernel.broker.pressure
    assert (pressure.delays_timed_out, pressure.overload_refused, pressure.delays_ended) == (1, 1, 0)


def test_it_is_let_in_if_there_is_time_again_with_all_that_it_sent_meanwhile() -> None:
    kernel = overloaded()
    peer = kernel.peer()
    peer.connect("c")
    peer.send(p.Ping(p.PINGREQ))
    assert peer.heard() == []
    kernel.broker.pressure.holds_connections = False
    kernel.advance(0.2)
    assert peer.heard() == ["CONNACK 0x00", "PINGRESP"]
    assert (kernel.broker.pressure.delays_ended, kernel.broker.pressure.delays_timed_out) == (1, 0)


def test_where_none_is_to_be_refused_it_only_waits() -> None:
    kernel = overloaded(replace(CHANNEL, overload_delay_us=100_000, overload_refuses=False))
    peer = kernel.peer()
    peer.connect("c")
    assert peer.heard() == []
    kernel.advance(0.2)
    assert peer.heard() == ["CONNACK 0x00"]
    assert kernel.broker.pressure.overload_refused == 0


def test_a_zone_without_protection_lets_in_at_once() -> None:
    kernel = overloaded(CHANNEL)
    peer = kernel.peer()
    peer.connect("c")
    assert peer.heard() == ["CONNACK 0x00"]


def test_one_that_leaves_while_it_waits_is_forgotten() -> None:
    kernel = overloaded()
    peer = kernel.peer()
    peer.connect("c")
    peer.drop()
    kernel.broker.pressure.holds_connections = False
    kernel.advance(0.2)
    assert kernel.sessions.held("c") is None
    assert kernel.broker.pressure.delays_ended == 0
