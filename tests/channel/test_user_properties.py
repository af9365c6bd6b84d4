"""User properties: so many in a packet, whatever packet it is."""

from dataclasses import replace

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL
from support.packets import properties, publish

MOST = [("k", "v")] * 256
TOO_MANY = [*MOST, ("k", "v")]


def test_as_many_as_are_allowed_reach_the_subscriber() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t")
    pub.publish("t", user_property=MOST)
    assert sub.heard() == ["PUBLISH t '' q0"]


@cases(
    "packet",
    [
        publish("t", user_property=TOO_MANY),
        p.Subscribe(1, [p.SubscribeEntry("t", 0, False, False, 0)], properties(user_property=TOO_MANY)),
        p.Unsubscribe(1, ["t"], properties(user_property=TOO_MANY)),
        p.Ack(p.PUBACK, 1, 0x10, properties(user_property=TOO_MANY)),
        p.Disconnect(0, properties(user_property=TOO_MANY)),
    ],
    ids=lambda packet: p.NAMES[packet.kind],
)
def test_one_more_ends_the_conversation(packet: p.Packet) -> None:
    kernel = Kernel()
    peer = kernel.connect("peer")
    peer.send(packet)
    assert said(peer) == rc.QUOTA_EXCEEDED
    assert kernel.reports == ["more than 256 user properties in one packet (mqtt.max_user_properties)"]


def test_in_connect_and_in_a_will() -> None:
    kernel = Kernel()
    peer = kernel.peer()
    peer.connect("peer", user_property=TOO_MANY)
    assert peer.take(p.Connack).code == rc.QUOTA_EXCEEDED
    peer = kernel.peer()
    peer.connect("peer", will=p.Will("t", b"", 0, False, properties(user_property=TOO_MANY)))
    assert peer.take(p.Connack).code == rc.QUOTA_EXCEEDED


def test_the_operator_decides_how_many() -> None:
    kernel = Kernel(replace(CHANNEL, max_user_properties=0))
    peer = kernel.connect("peer")
    peer.publish("t", user_property=[("k", "v")])
    assert said(peer) == rc.QUOTA_EXCEEDED


def test_they_count_as_work() -> None:
    kernel = Kernel()
    peer = kernel.connect("peer")
    before = kernel.broker.work
    peer.publish("t", user_property=MOST)
    assert kernel.broker.work - before > 256


def said(peer: Peer) -> int:
    """The reason code of the DISCONNECT that a peer got."""
    assert peer.closed()
    return peer.take(p.Disconnect).code
