"""A packet with more topic filters than one turn has time for."""

from dataclasses import replace

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.kernel import Kernel
from support.options import CHANNEL
from support.packets import properties, publish

COUNT = 20_000


def entries() -> list[p.SubscribeEntry]:
    return [p.SubscribeEntry(f"t/{number}", 1, False, False, 0) for number in range(COUNT)]


def subscribe(packet_id: int = 1) -> p.Subscribe:
    return p.Subscribe(packet_id, entries(), properties())


def test_its_answer_comes_when_all_are_done_and_others_have_turns_meanwhile() -> None:
    kernel = Kernel()
    sub, other = kernel.connect("sub"), kernel.connect("other")
    sub.feed(sub.encoded(subscribe(), p.Ping(p.PINGREQ)))
    turns = 0
    while sub.paused():
        assert sub.heard() == []
        other.feed(other.encoded(p.Ping(p.PINGREQ)))
        kernel.turn()
        turns += 1
        assert other.heard() in (["PINGRESP"], [])
    kernel.run()
    assert turns > 5
    suback, pingresp = sub.received()
    assert isinstance(suback, p.Suback)
    assert suback.codes == [1] * COUNT
    assert isinstance(pingresp, p.Ping)  # nothing overtakes it
    other.publish("t/19999", b"x")
    assert sub.heard() == ["PUBLISH t/19999 'x' q0"]


def test_unsubscribe_likewise() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.send(subscribe())
    sub.skip()
    sub.feed(sub.encoded(p.Unsubscribe(2, [f"t/{number}" for number in range(COUNT)], properties())))
    assert sub.paused()
    kernel.run()
    assert sub.take(p.Suback).codes == [rc.SUCCESS] * COUNT
    assert kernel.broker.statistics()["subscriptions.count"] == 0


def test_a_client_that_goes_or_is_taken_over_meanwhile_gets_no_more() -> None:
    kernel = Kernel()
    for leave in (lambda peer: peer.drop(), lambda peer: kernel.connect("sub", clean_start=False)):
        sub = kernel.connect("sub", session_expiry_interval=100)
        sub.feed(sub.encoded(subscribe()))
        assert sub.paused()
        leave(sub)
        kernel.run()
        session = kernel.sessions.find("sub")
        assert session is not None
        assert len(session.subscriptions) < COUNT


def test_what_it_may_not_have_ends_the_connection_when_the_operator_wants_that() -> None:
    kernel = Kernel(replace(CHANNEL, authz_disconnects=True))
    kernel.broker.hooks.point("client.authorize").add(
        lambda client, action, topic, verdict: ("stop", "deny" if topic == "t/19999" else "allow")
    )
    sub = kernel.connect("sub")
    sub.send(subscribe())
    assert sub.heard() == ["DISCONNECT 0x87"]
    assert sub.closed()


def test_messages_that_come_meanwhile_are_delivered_before_the_answer() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.feed(sub.encoded(subscribe()))
    while kernel.broker.statistics()["subscriptions.count"] == 0:  # its filters are decoded before
        kernel.turn()
    pub.feed(publish("t/0", b"early").data)
    kernel.run()
    first, second = sub.heard()
    assert first == "PUBLISH t/0 'early' q0"
    assert second.startswith("SUBACK")
