"""`$exclusive/` subscriptions: one client at a time has the topic."""

from dataclasses import replace

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel
from support.options import CHANNEL

EXCLUSIVE = "$exclusive/a/t"


def kernel_with_exclusive() -> Kernel:
    return Kernel(replace(CHANNEL, exclusive_subscription=True))


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_the_first_one_gets_it_and_nobody_else_while_it_does(version: int) -> None:
    kernel = kernel_with_exclusive()
    first, second = kernel.connect("first", version=version), kernel.connect("second", version=version)
    assert first.subscribe(EXCLUSIVE, 1) == [1]
    refused = rc.QUOTA_EXCEEDED if version == p.V5 else rc.UNSPECIFIED_ERROR
    assert second.subscribe(EXCLUSIVE, 1) == [refused]
    second.publish("a/t", b"x")
    assert first.heard() == ["PUBLISH a/t 'x' q0"]
    assert second.heard() == []


def test_it_excludes_nobody_who_subscribes_to_the_topic_itself() -> None:
    kernel = kernel_with_exclusive()
    first, second = kernel.connect("first"), kernel.connect("second")
    first.subscribe(EXCLUSIVE)
    assert second.subscribe("a/t") == [0]
    assert second.subscribe("a/#") == [0]
    kernel.connect("pub").publish("a/t")
    assert (len(first.received()), len(second.received())) == (1, 2)


def test_its_holder_may_subscribe_again() -> None:
    kernel = kernel_with_exclusive()
    peer = kernel.connect()
    assert peer.subscribe(EXCLUSIVE, 0) == [0]
    assert peer.subscribe(EXCLUSIVE, 2) == [2]
    assert peer.unsubscribe(EXCLUSIVE) == [0]
    assert len(kernel.broker.exclusive) == 0


@cases("how", ["unsubscribes", "disconnects", "starts anew", "expires"])
def test_it_is_free_again_when_its_holder(how: str) -> None:
    kernel = kernel_with_exclusive()
    first, second = kernel.connect("first", session_expiry_interval=60), kernel.connect("second")
    first.subscribe(EXCLUSIVE)
    if how == "unsubscribes":
        first.unsubscribe(EXCLUSIVE)
    elif how == "disconnects":
        first.disconnect(session_expiry_interval=0)
    else:
        first.drop()
        assert second.subscribe(EXCLUSIVE) == [rc.QUOTA_EXCEEDED]  # it may come back
        if how == "starts anew":
            kernel.connect("first", clean_start=True)
        else:
            kernel.advance(61)
    assert second.subscribe(EXCLUSIVE) == [0]
    second.publish("a/t")
    assert second.heard() == ["PUBLISH a/t '' q0"]


def test_a_session_that_goes_on_still_has_it() -> None:
    kernel = kernel_with_exclusive()
    kernel.connect("first", session_expiry_interval=60).subscribe(EXCLUSIVE)
    again = kernel.peer()
    again.connect("first", clean_start=False)
    assert kernel.connect("second").subscribe(EXCLUSIVE) == [rc.QUOTA_EXCEEDED]
    kernel.connect("pub").publish("a/t")
    assert again.heard() == ["CONNACK 0x00 present", "PUBLISH a/t '' q0"]


def test_it_gets_retained_messages() -> None:
    kernel = kernel_with_exclusive()
    kernel.connect("pub").publish("a/t", b"kept", retain=True)
    peer = kernel.connect()
    peer.send_subscribe(p.SubscribeEntry(EXCLUSIVE, 0, False, False, 0))
    assert peer.heard() == ["SUBACK #1 [0x00]", "PUBLISH a/t 'kept' q0 retain"]


@cases("topic_filter", ["$exclusive/a/+", "$exclusive/#", "$exclusive/", "$exclusive/$share/g/t"])
def test_filters_that_cannot_be_exclusive(topic_filter: str) -> None:
    assert kernel_with_exclusive().connect().subscribe(topic_filter) == [rc.TOPIC_FILTER_INVALID]


def test_an_operator_without_exclusive_subscriptions() -> None:
    assert Kernel().connect().subscribe(EXCLUSIVE) == [rc.TOPIC_FILTER_INVALID]


def test_one_denied_holds_nothing() -> None:
    kernel = Kernel(replace(CHANNEL, exclusive_subscription=True, max_subscriptions=1))
    full, other = kernel.connect("full"), kernel.connect("other")
    full.subscribe("x")
    assert full.subscribe(EXCLUSIVE) == [rc.QUOTA_EXCEEDED]
    assert other.subscribe(EXCLUSIVE) == [0]
