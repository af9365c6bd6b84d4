"""SUBSCRIBE and UNSUBSCRIBE: what is granted, and what each option does to what is delivered."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from support.cases import cases
from support.kernel import Kernel
from support.options import CHANNEL
from support.packets import properties
from support.wire import wire


def ids_of(packet: p.Publish) -> list[int]:
    return props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT).subscription_ids


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_a_reason_code_for_each_filter_in_order(version: int) -> None:
    peer = Kernel().connect(version=version)
    filters = ["a", "a/+", "#", "a/#/b", "+a", "$SYS/#", "/"]
    peer.send_subscribe(*[p.SubscribeEntry(name, index % 3, False, False, 0) for index, name in enumerate(filters)])
    bad = rc.TOPIC_FILTER_INVALID if version == p.V5 else rc.UNSPECIFIED_ERROR
    assert peer.take(p.Suback).codes == [0, 1, 2, bad, bad, 2, 0]


def test_what_the_operator_forbids() -> None:
    options = replace(
        CHANNEL, max_qos_allowed=1, wildcard_subscription=False, shared_subscription=False, max_subscriptions=3
    )
    kernel = Kernel(options)
    peer = kernel.connect()
    assert peer.subscribe("a", 2) == [1]
    assert peer.subscribe("b/+", 1) == [rc.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED]
    assert peer.subscribe("$share/g/a", 1) == [rc.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED]
    peer.subscribe("b")
    peer.subscribe("c")
    assert peer.subscribe("d") == [rc.QUOTA_EXCEEDED]
    assert peer.subscribe("c", 1) == [1]  # held already
    old = kernel.connect("old", version=p.V3_1_1)
    assert old.subscribe("b/+") == [rc.UNSPECIFIED_ERROR]  # 3.1.1 [MQTT-3.9.3-2]


def test_a_callback_may_deny_filters() -> None:
    kernel = Kernel()
    peer = kernel.connect()

    def deny(client: ClientInfo, sent: Properties, entries: list[p.SubscribeEntry]) -> None:
        for entry in entries:
            if entry.topic_filter.startswith(client.clientid):
                entry.code = rc.NOT_AUTHORIZED

    kernel.broker.hooks.point(hooks.CLIENT_SUBSCRIBE).add(deny)
    peer.send_subscribe(*[p.SubscribeEntry(name, 1, False, False, 0) for name in ("a", "c/1", "b")])
    suback = peer.take(p.Suback)
    assert suback.codes == [1, rc.NOT_AUTHORIZED, 1]
    assert suback.properties.named() == {"Reason-String": "'c/1' is refused: not_authorized"}
    peer.publish("c/1")
    assert peer.heard() == []


def test_a_callback_may_give_other_filters() -> None:
    kernel = Kernel()
    peer = kernel.connect()
    renamed = p.SubscribeEntry("new/c", 0, False, False, 0)
    kernel.broker.hooks.point(hooks.CLIENT_SUBSCRIBE).add(lambda client, sent, entries: (hooks.OK, [renamed]))
    kernel.broker.hooks.point(hooks.CLIENT_UNSUBSCRIBE).add(lambda client, sent, filters: (hooks.OK, ["new/c"]))
    assert peer.subscribe("old/c", 2) == [0]
    peer.publish("old/c")
    peer.publish("new/c")
    assert peer.heard() == ["PUBLISH new/c '' q0"]
    assert peer.unsubscribe("old/c") == [0]
    peer.publish("new/c")
    assert peer.heard() == []


@cases("outcome", [None, "all of them", [], [p.SubscribeEntry("x", 0, False, False, 0)] * 2, ["t"]])
def test_a_callback_that_gives_something_else_changes_nothing(outcome: object) -> None:
    kernel = Kernel()
    peer = kernel.connect()
    kernel.broker.hooks.point(hooks.CLIENT_SUBSCRIBE).add(lambda *args: (hooks.OK, outcome))
    assert peer.subscribe("t", 1) == [1]
    peer.publish("t")
    assert peer.heard() == ["PUBLISH t '' q0"]


def test_levels_of_a_filter_are_bounded() -> None:
    peer = Kernel(replace(CHANNEL, max_topic_levels=3)).connect()
    assert peer.subscribe("a/b/c") == [0]
    assert peer.subscribe("a/b/c/#") == [rc.TOPIC_FILTER_INVALID]


def test_a_subscription_works_before_its_suback_is_sent() -> None:
    peer = Kernel().connect()
    peer.feed(wire('82 # 0001 {} "t" 00') + wire("30 # \"t\" {} 'x'"))
    peer.kernel.run()
    assert peer.heard() == ["SUBACK #1 [0x00]", "PUBLISH t 'x' q0"]


@cases("granted", [0, 1, 2])
@cases("published", [0, 1, 2])
def test_the_lower_qos_holds(granted: int, published: int) -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t", granted)
    kernel.connect("pub").publish("t", b"x", published)
    assert sub.take(p.Publish).qos == min(granted, published)


def test_the_same_filter_again_replaces_its_options() -> None:
    kernel = Kernel()
    peer = kernel.connect()
    peer.subscribe("t", 0, subscription_identifier=[1])
    peer.subscribe("t", 1, no_local=True, retain_as_published=True, subscription_identifier=[2])
    peer.publish("t", b"own")
    kernel.connect("pub").publish("t", b"x", 2, retain=True)
    packet = peer.take(p.Publish)
    assert (packet.payload, packet.qos, packet.retain, ids_of(packet)) == (b"x", 1, True, [2])
    peer.subscribe("t", retain_handling=2)  # an identifier that is left out is gone
    kernel.connect("pub").publish("t", b"y", 2, retain=True)
    packet = peer.take(p.Publish)
    assert (packet.payload, packet.qos, packet.retain, ids_of(packet)) == (b"y", 0, False, [])


def test_no_local_keeps_own_messages_away_and_no_others() -> None:
    kernel = Kernel()
    peer = kernel.connect()
    peer.subscribe("t", 1, no_local=True)
    peer.publish("t", b"own", 1, 9)
    assert peer.heard() == ["PUBACK #9"]
    kernel.connect("pub").publish("t", b"other", 1)
    assert peer.heard() == ["PUBLISH t 'other' q1 #1"]
    assert kernel.broker.counters.snapshot()["delivery.dropped.no_local"] == 1


@cases("retain_as_published", [False, True])
@cases("retain", [False, True])
@cases("qos", [0, 1])
def test_retain_as_published(retain_as_published: bool, retain: bool, qos: int) -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t", 1, retain_as_published=retain_as_published)
    kernel.connect("pub").publish("t", b"x", qos, retain=retain)
    assert sub.take(p.Publish).retain is (retain and retain_as_published)  # [MQTT-3.3.1-12] [MQTT-3.3.1-13]


def test_each_subscription_that_matches_delivers_with_its_identifier() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    for number, topic_filter in enumerate(["t/a", "t/+", "#"], start=1):
        sub.subscribe(topic_filter, number % 3, subscription_identifier=[number])
    sub.subscribe("other", subscription_identifier=[9])
    kernel.connect("pub").publish("t/a", b"x", 2)
    packets = sub.received()
    assert all(isinstance(packet, p.Publish) for packet in packets)
    assert sorted(ids_of(packet) for packet in packets if isinstance(packet, p.Publish)) == [[1], [2], [3]]


def test_an_identifier_of_268435455() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t", subscription_identifier=[268_435_455])
    kernel.connect("pub").publish("t", b"x")
    assert ids_of(sub.take(p.Publish)) == [268_435_455]


def test_clients_of_mqtt_3_get_no_properties() -> None:
    kernel = Kernel()
    old = kernel.connect("old", version=p.V3_1_1)
    old.subscribe("t", 1)
    kernel.connect("pub").publish("t", b"x", 1, content_type="text", message_expiry_interval=5)
    assert old.heard() == ["PUBLISH t 'x' q1 #1"]


def test_unsubscribe() -> None:
    kernel = Kernel()
    peer = kernel.connect()
    peer.subscribe("a")
    peer.subscribe("b/#")
    assert peer.unsubscribe("a", "never", "b/#", "a") == [0, 0x11, 0, 0x11]
    kernel.connect("pub").publish("a", b"x")
    assert peer.heard() == []
    assert kernel.broker.router.statistics()["subscriptions.count"] == 0


def test_unsubscribe_in_mqtt_3_is_answered_without_codes() -> None:
    peer = Kernel().connect(version=p.V3_1_1)
    peer.subscribe("a")
    peer.send(p.Unsubscribe(77, ["a", "b"], properties()))
    assert peer.heard() == ["UNSUBACK #77 []"]


def test_what_is_on_its_way_outlives_its_subscription() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub", receive_maximum=1)
    sub.subscribe("t", 1)
    pub = kernel.connect("pub")
    pub.publish("t", b"one", 1)
    pub.publish("t", b"two", 1)
    sub.received()
    sub.unsubscribe("t")
    pub.publish("t", b"three", 1)
    sub.ack(p.PUBACK, 1)
    assert sub.heard() == ["PUBLISH t 'two' q1 #2"]


def test_filters_that_begin_with_dollar() -> None:
    kernel = Kernel()
    everything, system = kernel.connect("everything"), kernel.connect("system")
    everything.subscribe("#")
    everything.subscribe("+/a")
    system.subscribe("$SYS/#")
    kernel.connect("pub").publish("$SYS/a", b"x")
    assert everything.heard() == []
    assert system.heard() == ["PUBLISH $SYS/a 'x' q0"]


def test_a_publisher_that_holds_a_route_reaches_whoever_subscribes_later() -> None:
    kernel = Kernel(routes_max=2)
    pub, sub, other = kernel.connect("pub"), kernel.connect("sub"), kernel.connect("other")
    pub.publish("t", b"nobody")
    sub.subscribe("t")
    pub.publish("t", b"exact")
    assert sub.heard() == ["PUBLISH t 'exact' q0"]
    sub.unsubscribe("t")
    pub.publish("t", b"nobody")
    for number in range(5):  # the route cache starts anew
        other.publish(f"other/{number}")
    sub.subscribe("t")
    pub.publish("t", b"again")
    assert sub.heard() == ["PUBLISH t 'again' q0"]
    sub.unsubscribe("t")
    sub.subscribe("+")
    pub.publish("t", b"wildcard")
    assert sub.heard() == ["PUBLISH t 'wildcard' q0"]
