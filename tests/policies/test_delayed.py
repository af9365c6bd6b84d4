"""Delayed publishing, as clients see it."""

import logging

import pytest

from heliograph.access.bans.ban_table import Ban
from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.node.delayed import tell_lost
from heliograph.policies.delayed import DELAY_MAX_S
from support.cases import cases
from support.packets import properties, publish, say
from support.services import Node


def test_a_message_comes_when_its_time_does() -> None:
    node = Node()
    peer = node.connect()
    peer.subscribe("t/1", 1)
    peer.publish("$delayed/10/t/1", b"x", 1, 5)
    assert peer.heard() == ["PUBACK #5"]
    node.advance(9.5)
    assert peer.heard() == []
    node.advance(0.5)
    assert peer.heard() == ["PUBLISH t/1 'x' q1 #1"]
    assert node.statistics()["delayed.count"] == 0


def test_nobody_sees_the_message_before_its_time() -> None:
    node = Node("sys_topics.sys_msg_interval = disabled")
    peer = node.connect()
    peer.subscribe("$delayed/#")
    peer.subscribe("#")
    peer.publish("$delayed/10/t", b"x", retain=True)
    assert peer.heard() == []
    assert node.statistics()["retained.count"] == 0
    node.advance(10)
    assert peer.heard() == ["PUBLISH t 'x' q0"]
    assert node.statistics()["retained.count"] == 1


def test_messages_come_in_the_order_of_their_times_and_then_of_their_coming() -> None:
    node = Node()
    peer = node.connect()
    peer.subscribe("t")
    for delay, payload in [(20, b"4"), (10, b"2"), (5, b"1"), (10, b"3")]:
        peer.publish(f"$delayed/{delay}/t", payload)
    node.advance(20)
    assert peer.heard() == [f"PUBLISH t '{number}' q0" for number in range(1, 5)]


def test_a_delay_of_nothing_comes_with_the_next_tick() -> None:
    node = Node()
    peer = node.connect()
    peer.subscribe("t")
    peer.publish("$delayed/0/t", b"x")
    node.advance(0.5)
    assert peer.heard() == ["PUBLISH t 'x' q0"]


def test_what_it_carries_is_kept_and_its_lifetime_begins_when_it_is_published() -> None:
    node = Node()
    peer = node.connect(username="u")
    peer.publish("$delayed/100/t", b"x", 2, 5, message_expiry_interval=30, user_property=[("k", "v")], retain=True)
    node.advance(100)
    late = node.connect("late")
    node.advance(10)
    late.send_subscribe(p.SubscribeEntry("t", 2, False, False, 0))
    _, message = late.received()
    assert say(message) == "PUBLISH t 'x' q2 #1 retain"
    assert isinstance(message, p.Publish)
    kept = props.properties_from_wire(message.property_bytes, props.ALLOWED_PUBLISH).named()
    assert kept == {"Message-Expiry-Interval": 20, "User-Property": [("k", "v")]}
    node.advance(20)
    later = node.connect("later")
    later.subscribe("t")
    assert later.heard() == []  # it has expired


def test_a_number_too_large_for_a_delay_is_a_point_in_time() -> None:
    node = Node()
    peer = node.connect()
    peer.subscribe("t")
    peer.publish(f"$delayed/{node.now_s() + 60}/t", b"later")
    peer.publish(f"$delayed/{node.now_s() - 60}/t", b"past")
    node.advance(1)
    assert peer.heard() == ["PUBLISH t 'past' q0"]
    node.advance(59)
    assert peer.heard() == ["PUBLISH t 'later' q0"]


@cases(
    ("topic", "fault"),
    [
        ("$delayed/10", "it names no topic"),
        ("$delayed/", "it names no topic"),
        ("$delayed/10/", "the topic name is empty"),
        ("$delayed//t", "'' is no number of seconds"),
        ("$delayed/x/t", "'x' is no number of seconds"),
        ("$delayed/-5/t", "'-5' is no number of seconds"),
        ("$delayed/+5/t", None),  # a wildcard: refused before
        ("$delayed/1.5/t", "'1.5' is no number of seconds"),
        ("$delayed/٣/t", "'٣' is no number of seconds"),
        (f"$delayed/{DELAY_MAX_S + 1}/t", "is more than the longest delay"),
        ("$delayed/99999999999/t", "is more than the longest delay"),
        ("$delayed/" + "9" * 4000 + "/t", "is no number of seconds"),
    ],
)
def test_a_delay_that_is_none_drops_the_message(
    topic: str, fault: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node()
    peer = node.connect()
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    watcher.subscribe("$delayed/#")
    if fault is None:
        peer.publish(topic, b"x")
        assert peer.closed()
        return
    peer.publish(topic, b"x", 1, 5)
    assert peer.heard() == ["PUBACK #5 0x90"]
    older = node.peer(p.V3_1_1)
    older.connect("older")
    older.publish(topic, b"x", 1, 5)
    assert older.heard() == ["CONNACK 0x00", "PUBACK #5"]  # it has no reason code
    node.advance(1)
    assert watcher.heard() == []
    assert node.statistics()["delayed.dropped.invalid"] == 2
    assert fault in caplog.text
    assert len(caplog.text) < 2000


def test_the_longest_delay_is_one() -> None:
    node = Node()
    peer = node.connect()
    peer.publish(f"$delayed/{DELAY_MAX_S}/t", b"x")
    assert node.statistics()["delayed.count"] == 1


def test_no_more_messages_are_held_than_the_operator_allows(caplog: pytest.LogCaptureFixture) -> None:
    node = Node("delayed.max_delayed_messages = 2")
    peer = node.connect()
    peer.subscribe("t")
    for payload in (b"1", b"2", b"3"):
        peer.publish("$delayed/1/t", payload)
    peer.publish("$delayed/1/t", b"4", 1, 5)
    assert peer.heard() == ["PUBACK #5 0x97"]
    node.advance(1)
    assert peer.heard() == ["PUBLISH t '1' q0", "PUBLISH t '2' q0"]
    assert node.statistics()["delayed.dropped.full"] == 2
    assert "2 delayed messages are held (delayed.max_delayed_messages)" in caplog.text


def test_no_more_bytes_are_held_than_the_operator_allows(caplog: pytest.LogCaptureFixture) -> None:
    node = Node("delayed.max_delayed_bytes = 8KB")
    peer = node.connect()
    for _ in range(3):
        peer.publish("$delayed/1/t", bytes(4000))
    assert node.statistics()["delayed.count"] == 1
    assert node.statistics()["delayed.dropped.full"] == 2
    assert "(delayed.max_delayed_bytes)" in caplog.text
    node.advance(1)
    assert node.statistics()["delayed.bytes"] == 0


def test_a_publisher_is_told_that_no_more_messages_are_held() -> None:
    node = Node("delayed.max_delayed_messages = 1")
    peer = node.connect()
    for packet_id, qos in ((1, 1), (2, 1), (3, 2)):
        peer.publish("$delayed/1/t", b"x", qos, packet_id)
    assert peer.heard() == ["PUBACK #1", "PUBACK #2 0x97", "PUBREC #3 0x97"]


def test_a_will_may_be_delayed_too() -> None:
    node = Node()
    watcher = node.connect("watcher")
    watcher.subscribe("w")
    peer = node.connect(will=p.Will("$delayed/5/w", b"gone", 0, False, properties()))
    peer.drop()
    assert watcher.heard() == []
    node.advance(5)
    assert watcher.heard() == ["PUBLISH w 'gone' q0"]


def test_what_a_banned_client_left_behind_is_not_published() -> None:
    node = Node()
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    node.connect("bad").publish("$delayed/5/t", b"x")
    node.connect("good").publish("$delayed/5/t", b"y")
    node.bans.add(Ban("clientid", "bad"))
    node.advance(5)
    assert watcher.heard() == ["PUBLISH t 'y' q0"]
    assert node.statistics()["delayed.dropped.banned"] == 1


def test_many_messages_that_are_due_are_spread_over_turns() -> None:
    node = Node()
    peer = node.connect()
    peer.subscribe("t")
    for number in range(1000):
        peer.publish("$delayed/1/t", b"%d" % number)
    node.now_us += 1_000_000
    node.broker.begin_turn(node.now_us)
    node.delayed.tick(node.now_us)
    node.turn()
    first = len(peer.received())
    assert 0 < first <= 300
    node.delayed.tick(node.now_us)  # a tick in between publishes nothing twice
    node.run()
    assert first + len(peer.received()) == 1000


def test_ids_of_messages_are_of_the_time_of_publishing_and_unique() -> None:
    node = Node()
    seen: list[bytes] = []
    peer = node.connect()
    peer.subscribe("t")
    node.broker.hooks.message_delivered.add(lambda clientid, message, _: seen.append(message.guid))
    for _ in range(100):
        peer.publish("$delayed/1/t", b"x")
    node.advance(1)
    assert len(set(seen)) == 100
    assert {int.from_bytes(guid[:8]) for guid in seen} == {node.now_us}


@cases("topic", ["secret/t", "$delayed/0/secret/t", "$delayed/0/$delayed/0/secret/t"])
def test_a_delay_is_no_way_around_authorization(topic: str) -> None:
    node = Node()
    asked: list[object] = []

    def decide(client: ClientInfo, action: Action, topic: str, _accumulator: object) -> object:
        asked.append(topic)
        return hooks.STOP, "deny" if action.kind == "publish" and topic.startswith("secret/") else "allow"

    node.broker.hooks.client_authorize.add(decide)
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    peer = node.connect()
    peer.publish(topic, b"x", 1, 5)
    assert peer.heard() == ["PUBACK #5 0x87"]
    node.advance(1)
    assert watcher.heard() == []
    assert "secret/t" in asked


def test_switched_off_the_topic_is_like_any_other() -> None:
    node = Node("delayed.enable = false")
    peer = node.connect()
    peer.subscribe("$delayed/#")
    peer.publish("$delayed/10/t", b"x")
    assert peer.heard() == ["PUBLISH $delayed/10/t 'x' q0"]
    assert node.broker.hooks.message_publish.callbacks == []


def test_what_is_held_at_the_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.connect().publish("$delayed/10/t", b"x")
    with caplog.at_level(logging.WARNING):
        tell_lost(node.delayed)
    assert "1 delayed messages were held and are lost" in caplog.text


def test_a_packet_of_mqtt_3_is_delayed_too() -> None:
    node = Node()
    peer = node.connect(version=4)
    peer.subscribe("t", 1)
    peer.send(publish("$delayed/1/t", b"x", 1, 7, version=4))
    node.advance(1)
    assert peer.heard() == ["PUBACK #7", "PUBLISH t 'x' q1 #1"]


def test_what_is_held_is_listed_in_pieces_and_can_be_let_go() -> None:
    node = Node()
    peer = node.connect()
    peer.subscribe("#")
    for number in range(1, 8):
        peer.publish(f"$delayed/{10 - number}/t/{number}", b"x")
    delayed = node.delayed
    first = delayed.held_after(0, 3)
    assert [held.message.topic for held in first] == ["t/1", "t/2", "t/3"]
    gone = delayed.remove(first[-1].number)
    assert gone == first[-1]
    assert delayed.remove(first[-1].number) is None
    assert [held.message.topic for held in delayed.held_after(gone.number, 3)] == ["t/4", "t/5", "t/6"]
    assert delayed.find(first[0].number) == first[0]
    assert delayed.statistics()["delayed.count"] == 6
    node.advance(10)
    assert [line.split()[1] for line in peer.heard()] == [f"t/{number}" for number in (7, 6, 5, 4, 2, 1)]
    assert list(delayed.held_after(0, 3)) == []
    assert delayed.statistics()["delayed.bytes"] == 0
