"""PUBLISH from a client: answers at each QoS, what is refused, topic aliases."""

from dataclasses import replace

from heliograph.mqtt import packets as p
from retainer.retaining import read
from support.cases import cases
from support.kernel import Kernel
from support.options import CHANNEL, SESSION
from support.packets import publish, say
from support.wire import wire

V3 = p.V3_1_1


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
@cases(("qos", "answer"), [(0, []), (1, ["PUBACK #7"]), (2, ["PUBREC #7"])])
def test_the_answer_to_each_qos(version: int, qos: int, answer: list[str]) -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    pub = kernel.connect("pub", version=version)
    pub.publish("t", b"x", qos, 7)
    assert pub.heard() == answer
    packet = sub.take(p.Publish)
    assert (packet.payload, packet.qos, packet.dup) == (b"x", qos, False)


@cases(("version", "said"), [(p.V5, " 0x10"), (p.V3_1_1, "")])
def test_nobody_subscribed(version: int, said: str) -> None:
    kernel = Kernel()
    pub = kernel.connect(version=version)
    pub.publish("t", b"x", 0)
    pub.publish("t", b"x", 1, 1)
    pub.publish("t", b"x", 2, 2)
    pub.ack(p.PUBREL, 2)
    assert pub.heard() == [f"PUBACK #1{said}", f"PUBREC #2{said}", "PUBCOMP #2"]
    assert kernel.broker.counters.snapshot()["messages.dropped.no_subscribers"] == 3


def test_the_whole_flow_of_qos_2_on_both_sides() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t", 2)
    pub.publish("t", b"x", 2, 1)
    assert pub.heard() == ["PUBREC #1"]
    assert sub.heard() == ["PUBLISH t 'x' q2 #1"]
    pub.ack(p.PUBREL, 1)
    sub.ack(p.PUBREC, 1)
    assert pub.heard() == ["PUBCOMP #1"]
    assert sub.heard() == ["PUBREL #1"]
    sub.ack(p.PUBCOMP, 1)
    assert sub.heard() == []


def test_a_qos_2_publish_that_is_repeated_is_answered_and_not_published_again() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t", 1)
    for dup in (False, True, False):
        pub.publish("t", b"x", 2, 1, dup=dup)
    assert pub.heard() == ["PUBREC #1"] * 3
    assert sub.heard() == ["PUBLISH t 'x' q1 #1"]
    pub.ack(p.PUBREL, 1)
    pub.publish("t", b"y", 2, 1)  # released: the identifier is free for a new message
    assert pub.heard() == ["PUBCOMP #1", "PUBREC #1"]
    assert sub.heard() == ["PUBLISH t 'y' q1 #2"]


def test_a_qos_1_publish_that_is_repeated_is_published_again() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t", 1)
    pub.publish("t", b"x", 1, 1)
    pub.publish("t", b"x", 1, 1, dup=True)
    assert sub.heard() == ["PUBLISH t 'x' q1 #1", "PUBLISH t 'x' q1 #2"]  # DUP is each hop's own [MQTT-3.3.1-3]


@cases(("version", "answer"), [(p.V5, ["DISCONNECT 0x82"]), (V3, [])])
@cases(
    ("qos", "kinds", "counted"),
    [
        (1, [p.PUBREC], "packets.pubrec.inuse"),
        (1, [p.PUBCOMP], "packets.pubcomp.inuse"),
        (2, [p.PUBACK], "packets.puback.inuse"),
        (2, [p.PUBCOMP], "packets.pubcomp.inuse"),
        (2, [p.PUBREC, p.PUBACK], "packets.puback.inuse"),
    ],
)
def test_an_acknowledgement_of_another_kind_ends_the_connection(
    version: int, answer: list[str], qos: int, kinds: list[int], counted: str
) -> None:
    kernel = Kernel()
    sub = kernel.connect("sub", version=version)
    sub.subscribe("t", qos)
    kernel.connect("pub").publish("t", b"x", qos, 1)
    sub.heard()
    *right, wrong = kinds
    for kind in right:
        sub.ack(kind, 1)
    sub.heard()
    sub.ack(wrong, 1)
    assert sub.heard() == answer
    assert sub.closed()
    assert kernel.broker.counters.snapshot()[counted] == 1


def test_a_pubrec_that_is_repeated_is_answered() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    kernel.connect("pub").publish("t", b"x", 2, 1)
    sub.ack(p.PUBREC, 1)
    sub.ack(p.PUBREC, 1)
    assert sub.heard() == ["PUBLISH t 'x' q2 #1", "PUBREL #1", "PUBREL #1"]


def test_a_pubrel_for_nothing() -> None:
    kernel = Kernel()
    peer, old = kernel.connect("c"), kernel.connect("old", version=V3)
    peer.ack(p.PUBREL, 4)
    old.ack(p.PUBREL, 4)
    assert peer.heard() == ["PUBCOMP #4 0x92"]
    assert old.heard() == ["PUBCOMP #4"]


@cases(("version", "said"), [(p.V5, ["DISCONNECT 0x93"]), (V3, [])])
def test_too_many_qos_2_messages_without_pubrel(version: int, said: list[str]) -> None:
    kernel = Kernel(session_options=replace(SESSION, max_awaiting_rel=2))
    sub, pub = kernel.connect("sub"), kernel.connect("pub", version=version)
    sub.subscribe("t", 2)
    for packet_id in (1, 2, 1):  # the third repeats the first
        pub.publish("t", b"x", 2, packet_id)
    assert pub.heard() == ["PUBREC #1", "PUBREC #2", "PUBREC #1"]
    pub.publish("t", b"one too many", 2, 3)
    assert pub.heard() == said
    assert pub.closed()
    assert sub.heard() == ["PUBLISH t 'x' q2 #1", "PUBLISH t 'x' q2 #2"]


def test_an_identifier_that_was_never_released_is_given_up_for_another() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_awaiting_rel=1, await_rel_timeout_us=300_000_000))
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t", 0)
    pub.publish("t", b"x", 2, 1)
    kernel.advance(301)
    pub.publish("t", b"y", 2, 2)
    assert pub.heard() == ["PUBREC #1", "PUBREC #2"]
    pub.ack(p.PUBREL, 1)
    pub.ack(p.PUBREL, 2)
    assert pub.heard() == ["PUBCOMP #1 0x92", "PUBCOMP #2"]


def test_no_limit_on_qos_2() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_awaiting_rel=0))
    pub = kernel.peer()
    pub.connect("pub")
    assert "Receive-Maximum" not in pub.take(p.Connack).properties.named()
    for packet_id in range(1, 500):
        pub.publish("t", b"x", 2, packet_id)
    assert len(pub.received()) == 499


@cases(("version", "said"), [(p.V5, ["DISCONNECT 0x9b"]), (V3, [])])
@cases("qos", [1, 2])
def test_a_qos_that_the_operator_does_not_allow(version: int, said: list[str], qos: int) -> None:
    kernel = Kernel(replace(CHANNEL, max_qos_allowed=0))
    peer = kernel.connect(version=version)
    peer.publish("t", b"x", qos, 1)
    assert peer.heard() == said
    assert peer.closed()


def test_messages_of_one_publisher_to_one_topic_keep_their_order() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t/#", 2)
    pub.send(*[publish(f"t/{number % 3}", b"%d" % number, 1, number + 1) for number in range(30)])
    payloads = [packet.payload for packet in sub.received() if isinstance(packet, p.Publish)]
    assert payloads == [b"%d" % number for number in range(30)]
    assert pub.heard() == [f"PUBACK #{number + 1}" for number in range(30)]


def test_a_publisher_may_be_its_own_subscriber() -> None:
    peer = Kernel().connect()
    peer.subscribe("t", 1)
    peer.publish("t", b"x", 1, 9)
    assert sorted(peer.heard()) == ["PUBACK #9", "PUBLISH t 'x' q1 #1"]


def test_properties_reach_the_subscriber_unchanged() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t", 2)
    for qos in (0, 1, 2):
        sent = publish(
            "t",
            b"x",
            qos,
            qos,
            payload_format_indicator=1,
            content_type="text",
            response_topic="r",
            correlation_data=b"\0\1",
            user_property=[("b", "1"), ("a", "2"), ("b", "1")],
        )
        pub.send(sent)
        assert sub.take(p.Publish).property_bytes == sent.property_bytes  # [MQTT-3.3.2-17] [MQTT-3.3.2-18]


# --- topic aliases


def test_an_alias_stands_for_the_topic_it_came_with() -> None:
    kernel = Kernel()
    sub, old, pub = kernel.connect("sub"), kernel.connect("old", version=V3), kernel.connect("pub")
    sub.subscribe("#", 1)
    old.subscribe("#", 1)
    pub.publish("a/b", b"1", 1, 1, topic_alias=1, content_type="text")
    pub.publish("", b"2", 0, topic_alias=1)
    pub.publish("c", b"3", 0, topic_alias=1)  # now it stands for another
    pub.publish("", b"4", 0, topic_alias=1)
    pub.publish("a/b", b"5", 0)
    heard = [
        "PUBLISH a/b '1' q1 #1",
        "PUBLISH a/b '2' q0",
        "PUBLISH c '3' q0",
        "PUBLISH c '4' q0",
        "PUBLISH a/b '5' q0",
    ]
    packets = sub.received()
    assert [say(packet) for packet in packets] == heard
    assert [packet.property_bytes for packet in packets if isinstance(packet, p.Publish)] == [
        wire('03 "text"'),
        b"",
        b"",
        b"",
        b"",
    ]  # the alias is the publisher's alone
    assert old.heard() == heard
    assert pub.heard() == ["PUBACK #1"]


def test_aliases_of_two_clients_are_their_own() -> None:
    kernel = Kernel()
    one, two = kernel.connect("one"), kernel.connect("two")
    one.publish("a", b"", topic_alias=1)
    two.publish("", b"", topic_alias=1)
    assert two.heard() == ["DISCONNECT 0x82"]
    assert not one.closed()


@cases(("alias_max", "alias", "is_valid"), [(5, 5, True), (5, 6, False), (0, 1, False)])
def test_the_largest_alias(alias_max: int, alias: int, is_valid: bool) -> None:
    kernel = Kernel(replace(CHANNEL, max_topic_alias=alias_max))
    peer = kernel.connect()
    peer.publish("a", b"", topic_alias=alias)
    assert peer.heard() == ([] if is_valid else ["DISCONNECT 0x94"])  # [MQTT-3.3.2-9]


def test_a_retained_message_published_by_alias() -> None:
    kernel = Kernel(stored=["#"])
    pub = kernel.connect("pub")
    pub.publish("a", b"1", topic_alias=3)
    pub.publish("", b"2", topic_alias=3, retain=True)
    assert read(kernel.retainer.match("#")) == [("a", b"2")]
    assert [message.topic for _, message in kernel.sink.messages] == ["a", "a"]
    assert all(message.property_bytes == b"" for _, message in kernel.sink.messages)


def test_a_zone_may_allow_fewer_levels_than_others() -> None:
    kernel = Kernel(replace(CHANNEL, max_topic_levels=5))
    narrow = replace(CHANNEL, max_topic_levels=2)
    peer = kernel.peer(options=narrow)
    peer.connect("c")
    peer.skip()
    peer.publish("a/b", b"", 1, 1)
    assert peer.heard() == ["PUBACK #1 0x10"]
    peer.publish("a/b/c", b"", 1, 2)
    assert peer.heard() == ["DISCONNECT 0x90"]
