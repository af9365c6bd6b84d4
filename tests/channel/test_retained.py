"""Retained messages as subscribers see them."""

from dataclasses import replace

from heliograph.broker.subscription import Subscription
from heliograph.channel.retained import RetainedDelivery
from heliograph.mqtt import packets as p
from heliograph.mqtt.properties import Properties
from heliograph.retainer.memory import MemoryRetainer
from heliograph.retainer.options import RetainerOptions
from heliograph.session.options import SessionOptions
from support.cases import cases
from support.kernel import Kernel
from support.options import CHANNEL, RETAINER, SESSION
from support.wire import wire


def kernel_with(*topics: str, qos: int = 0) -> Kernel:
    kernel = Kernel()
    pub = kernel.connect("retainer")
    for topic in topics:
        pub.publish(topic, topic.encode(), qos, retain=True)
    return kernel


def kernel_with_options(
    options: RetainerOptions, *topics: str, qos: int = 0, session_options: SessionOptions | None = None
) -> Kernel:
    kernel = Kernel(session_options=session_options)
    kernel.retainer = MemoryRetainer(kernel.broker, options)
    kernel.broker.retained = kernel.retainer
    pub = kernel.connect("retainer")
    for topic in topics:
        pub.publish(topic, topic.encode(), qos, retain=True)
    pub.drop()
    return kernel


def hears(kernel: Kernel, topic_filter: str, qos: int = 0, version: int = p.V5) -> list[str]:
    """What a new client hears behind the SUBACK of its first subscription."""
    peer = kernel.connect("new", version=version)
    peer.send_subscribe(p.SubscribeEntry(topic_filter, qos, False, False, 0))
    heard = peer.heard()
    assert heard[0].startswith("SUBACK #1")
    return sorted(heard[1:])


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_a_new_subscription_gets_the_last_message_with_its_flag(version: int) -> None:
    kernel = kernel_with("a")
    kernel.connect("pub").publish("a", b"newer", 1, retain=True, message_expiry_interval=60)
    assert hears(kernel, "a", 1, version) == ["PUBLISH a 'newer' q1 #1 retain"]  # [MQTT-3.3.1-5] 3.1.1 [MQTT-3.3.1-6]


@cases(
    ("topic_filter", "topics"),
    [
        ("#", ["/x", "a", "a/", "a/b", "a/b/c"]),
        ("+", ["a"]),
        ("a/#", ["a", "a/", "a/b", "a/b/c"]),
        ("a/+", ["a/", "a/b"]),
        ("+/+", ["/x", "a/", "a/b"]),
        ("+/b/#", ["a/b", "a/b/c"]),
        ("$SYS/#", ["$SYS/x"]),
        ("$SYS/+", ["$SYS/x"]),
        ("nothing/#", []),
        ("a/b", ["a/b"]),
    ],
)
def test_which_messages_a_filter_gets(topic_filter: str, topics: list[str]) -> None:
    kernel = kernel_with("a", "a/", "a/b", "a/b/c", "/x", "$SYS/x")
    assert hears(kernel, topic_filter) == [f"PUBLISH {topic} '{topic}' q0 retain" for topic in topics]


def test_an_empty_payload_forgets_and_is_delivered() -> None:
    kernel = kernel_with("a")
    sub = kernel.connect("sub")
    sub.subscribe("a", retain_handling=2)
    kernel.connect("pub").publish("a", b"", retain=True)
    assert sub.heard() == ["PUBLISH a '' q0"]
    assert hears(kernel, "#") == []  # [MQTT-3.3.1-6] [MQTT-3.3.1-7] 3.1.1 [MQTT-3.3.1-10] [MQTT-3.3.1-11]
    assert len(kernel.retainer) == 0


def test_a_message_without_the_flag_changes_nothing() -> None:
    kernel = kernel_with("a")
    kernel.connect("pub").publish("a", b"passing")
    kernel.connect("pub").publish("a", b"")
    assert hears(kernel, "a") == ["PUBLISH a 'a' q0 retain"]  # [MQTT-3.3.1-8] 3.1.1 [MQTT-3.3.1-12]


@cases(("retain_handling", "first", "second"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_retain_handling(retain_handling: int, first: int, second: int) -> None:
    kernel = kernel_with("a")
    peer = kernel.connect()
    for count in (first, second):
        peer.send_subscribe(p.SubscribeEntry("a", 0, False, False, retain_handling))
        assert len(peer.heard()) == 1 + count
    peer.unsubscribe("a")
    peer.send_subscribe(p.SubscribeEntry("a", 0, False, False, retain_handling))
    assert len(peer.heard()) == 1 + first  # a new subscription


def test_retain_handling_1_counts_a_session_that_goes_on() -> None:
    kernel = kernel_with("a")
    peer = kernel.connect(session_expiry_interval=60)
    peer.send_subscribe(p.SubscribeEntry("a", 0, False, False, 1))
    assert peer.heard() == ["SUBACK #1 [0x00]", "PUBLISH a 'a' q0 retain"]
    peer.drop()
    again = kernel.peer()
    again.connect("c", clean_start=False)
    again.received()
    again.send_subscribe(p.SubscribeEntry("a", 0, False, False, 1))
    assert again.heard() == ["SUBACK #1 [0x00]"]


def test_a_subscription_that_was_refused_gets_nothing() -> None:
    kernel = kernel_with("a")
    peer = kernel.connect()
    peer.send_subscribe(p.SubscribeEntry("a/#/b", 0, False, False, 0))
    assert peer.heard() == ["SUBACK #1 [0x8f]"]


def test_the_flag_is_set_whatever_retain_as_published_says() -> None:
    kernel = kernel_with("a", qos=2)
    peer = kernel.connect()
    peer.send_subscribe(p.SubscribeEntry("a", 1, False, False, 0), subscription_identifier=[5])
    suback, publish = peer.received()
    assert isinstance(suback, p.Suback)
    assert isinstance(publish, p.Publish)
    assert (publish.qos, publish.retain, publish.property_bytes) == (1, True, b"\x0b\x05")


def test_no_local_holds_for_own_retained_messages() -> None:
    kernel = kernel_with("a")
    own = kernel.connect("retainer")
    own.subscribe("a", no_local=True)  # no message behind the SUBACK [MQTT-3.8.3-3]


def test_retained_messages_expire() -> None:
    kernel = Kernel()
    kernel.connect("pub").publish("a", b"x", retain=True, message_expiry_interval=10)
    kernel.advance(4)
    peer = kernel.connect("early")
    peer.send_subscribe(p.SubscribeEntry("a", 0, False, False, 0))
    publish = peer.received()[1]
    assert isinstance(publish, p.Publish)
    assert publish.property_bytes == b"\x02\0\0\0\x06"
    kernel.advance(6)
    assert hears(kernel, "#") == []
    assert len(kernel.retainer) == 0


@cases(("version", "said"), [(p.V5, ["DISCONNECT 0x9a"]), (p.V3_1_1, [])])
def test_retain_where_it_is_not_available(version: int, said: list[str]) -> None:
    kernel = Kernel(replace(CHANNEL, retain_available=False))
    peer = kernel.connect(version=version)
    peer.publish("a", b"x", retain=True)
    assert peer.heard() == said  # [MQTT-3.2.2-14]
    assert peer.closed()
    assert len(kernel.retainer) == 0


def test_a_client_that_is_away_finds_what_its_subscription_got_then() -> None:
    kernel = kernel_with("a")
    peer = kernel.connect("sub", session_expiry_interval=60)
    peer.send_bytes(wire('82 # 0001 {} "a" 01'))
    peer.drop()
    kernel.connect("pub").publish("a", b"newer", 1, retain=True)
    again = kernel.peer()
    again.connect("sub", clean_start=False)
    assert again.heard() == ["CONNACK 0x00 present", "PUBLISH a 'newer' q1 #1"]


def test_what_is_retained_after_the_subscription_comes_once() -> None:
    options = replace(RETAINER, batch_read_number=1)
    kernel = kernel_with_options(options, "a", "b", "c", qos=1, session_options=replace(SESSION, max_inflight=1))
    peer = kernel.connect("sub")
    peer.send_subscribe(p.SubscribeEntry("#", 1, False, False, 0))
    pub = kernel.connect("pub")
    pub.publish("c", b"newer", 1, retain=True)
    pub.publish("d", b"new", 1, retain=True)
    heard = []
    while publishes := [packet for packet in peer.received() if isinstance(packet, p.Publish)]:
        for publish in publishes:
            heard.append((publish.payload, publish.retain))
            peer.ack(p.PUBACK, publish.packet_id)
    assert heard == [(b"a", True), (b"b", True), (b"newer", False), (b"new", False)]


@cases("qos", [0, 1, 2])
def test_clearing_may_be_kept_from_subscribers(qos: int) -> None:
    kernel = kernel_with_options(replace(RETAINER, stop_publish_clear_msg=True), "a")
    sub = kernel.connect("sub")
    sub.subscribe("a", retain_handling=2)
    pub = kernel.connect("pub")
    pub.publish("a", b"", qos, retain=True)
    assert sub.heard() == []
    assert pub.heard() == [[], ["PUBACK #1"], ["PUBREC #1"]][qos]
    assert hears(kernel, "a") == []
    pub.publish("a", b"")  # an ordinary message
    assert sub.heard() == ["PUBLISH a '' q0"]


def test_a_will_that_clears_may_be_kept_from_subscribers_too() -> None:
    kernel = kernel_with_options(replace(RETAINER, stop_publish_clear_msg=True), "a")
    sub = kernel.connect("sub")
    sub.subscribe("a", retain_handling=2)
    kernel.connect("dies", will=p.Will("a", b"", 0, True, Properties())).drop()
    assert sub.heard() == []
    assert hears(kernel, "a") == []


def test_nobody_gets_what_a_message_too_large_to_retain_has_replaced() -> None:
    kernel = kernel_with_options(replace(RETAINER, max_payload_size=2), "a", "b")
    sub = kernel.connect("sub")
    sub.subscribe("a", retain_handling=2)
    kernel.connect("pub").publish("a", b"large", retain=True)
    assert sub.heard() == ["PUBLISH a 'large' q0"]
    assert hears(kernel, "#") == ["PUBLISH b 'b' q0 retain"]
    assert kernel.retainer.statistics()["retained.dropped.payload_size"] == 1


def test_a_client_gets_a_batch_in_each_turn() -> None:
    kernel = kernel_with_options(replace(RETAINER, batch_deliver_number=2), "a", "b", "c", "d", "e")
    peer = kernel.connect("sub")
    peer.feed(wire('82 # 0001 00 "#" 00'))
    counts = []
    for _ in range(10):
        kernel.turn()
        counts.append(len(peer.received()))
    assert [count for count in counts if count] == [1 + 2, 2, 1]


def test_a_client_gets_so_many_in_a_second() -> None:
    kernel = kernel_with_options(replace(RETAINER, delivery_rate=(4, 1_000_000)), *"abcdefghijk")
    assert len(hears(kernel, "#")) == 4
    peer = kernel.connect("other")
    peer.send_subscribe(p.SubscribeEntry("#", 0, False, False, 0))
    counts = [len(peer.received())]
    for _ in range(5):
        kernel.advance(0.5)
        counts.append(len(peer.received()))
    assert counts == [1 + 4, 2, 2, 2, 1, 0]


def test_a_client_that_subscribes_again_has_had_its_share() -> None:
    kernel = kernel_with_options(replace(RETAINER, delivery_rate=(3, 1_000_000)), "a", "b")
    peer = kernel.connect()
    for count in (2, 1):
        peer.send_subscribe(p.SubscribeEntry("#", 0, False, False, 0))
        assert len(peer.received()) == 1 + count


def test_subscribing_over_and_over_without_reading_costs_no_more_than_its_subscriptions() -> None:
    kernel = kernel_with("a")
    session, _ = kernel.sessions.open("sub", True, SESSION)  # nothing is attached: it takes nothing
    retained = RetainedDelivery(kernel.context, session)
    kept = Subscription(session, "a", 0, False, False, 0, 0)
    session.subscribe("a", kept)
    for number in range(1000):
        retained.add(kept)
        passing = Subscription(session, f"b/{number}", 0, False, False, 0, 0)
        session.subscribe(passing.topic_filter, passing)
        retained.add(passing)
        session.unsubscribe(passing.topic_filter)
    assert len(retained) < 50


def test_a_retained_message_goes_to_no_shared_subscription() -> None:
    kernel = kernel_with("a")
    peer = kernel.connect("sub")
    peer.send_subscribe(p.SubscribeEntry("$share/g/a", 1, False, False, 0))
    assert peer.heard() == ["SUBACK #1 [0x01]"]


def test_a_retained_flood_is_delivered_and_kept_as_far_as_there_is_room() -> None:
    kernel = kernel_with_options(replace(RETAINER, max_retained_messages=10))
    sub = kernel.connect("sub")
    sub.subscribe("#")
    flood = kernel.connect("flood")
    for number in range(500):
        flood.publish(f"flood/{number}", b"x", retain=True)
    assert len(sub.received()) == 500
    assert len(hears(kernel, "#")) == 10
    statistics = kernel.retainer.statistics()
    assert (statistics["retained.count"], statistics["retained.dropped.full"]) == (10, 490)
