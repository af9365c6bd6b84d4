"""Alarms, as subscribers see them."""

import json

from heliograph.mqtt import packets as p
from support.kernel import Peer
from support.services import Node

PREFIX = "$SYS/brokers/heliograph@127.0.0.1/alarms/"


def told(peer: Peer) -> list[tuple[str, dict[str, object]]]:
    messages = [packet for packet in peer.received() if isinstance(packet, p.Publish)]
    return [(message.topic.decode().removeprefix(PREFIX), json.loads(message.payload)) for message in messages]


def test_an_alarm_is_told_once_until_it_ends() -> None:
    node = Node()
    watcher = node.connect("watcher")
    watcher.send_subscribe(p.SubscribeEntry(PREFIX + "#", 0, False, False, 0))
    watcher.skip()
    alarms = node.alarms
    assert alarms.activate("disk", "the disk is full", {"path": "/d"})
    assert not alarms.activate("disk", "the disk is still full", {})
    node.advance(1)
    ((event, alarm),) = told(watcher)
    assert event == "activate"
    assert (alarm["name"], alarm["message"], alarm["details"]) == ("disk", "the disk is full", {"path": "/d"})
    assert (alarm["activated"], alarm["deactivate_at"], alarm["severity"]) == (True, "infinity", "critical")
    assert [one.name for one in alarms.active()] == ["disk"]
    assert alarms.deactivate("disk")
    assert not alarms.deactivate("disk")
    node.advance(1)
    ((event, ended),) = told(watcher)
    assert (event, ended["activated"], ended["activate_at"]) == ("deactivate", False, alarm["activate_at"])
    assert isinstance(ended["deactivate_at"], int)
    assert alarms.active() == []
    assert [one.name for one in alarms.history()] == ["disk"]


def test_not_more_than_a_thousand_at_a_time() -> None:
    node = Node()
    alarms = node.alarms
    assert [alarms.activate(f"a{n}", "", {}) for n in range(1001)] == [True] * 1000 + [False]
    assert alarms.statistics() == {"alarms.active": 1000, "alarms.dropped": 1}
    assert alarms.deactivate("a0")
    assert alarms.activate("busy", "", {}, degrades=False)
    assert alarms.by_severity() == {"critical": 999, "warning": 1}


def test_alarms_and_their_history_keep_no_more_than_the_beginning_of_long_texts() -> None:
    node = Node()
    alarms = node.alarms
    for letter in "ab":
        longest = "c" * 65_000 + letter
        assert alarms.activate(f"client/{longest}", f"client {longest} is slow", {"clientid": longest, "count": 3})
        assert not alarms.activate(f"client/{longest}", "", {})
        assert alarms.deactivate(f"client/{longest}")
    first, second = alarms.history()
    assert all(len(alarm.to_json()) < 3000 for alarm in (first, second))
    assert first.details["count"] == 3
    assert first.details["clientid"] != second.details["clientid"]


def test_who_comes_later_sees_what_goes_on() -> None:
    node = Node("retainer.enable = false")
    alarms = node.alarms
    for name in ("disk", "client/a+b", "over"):
        alarms.activate(name, "something is wrong", {})
    alarms.deactivate("over")
    node.advance(1)

    def seen(topic_filter: str) -> dict[str, object]:
        peer = node.connect()
        peer.send_subscribe(p.SubscribeEntry(PREFIX + topic_filter, 0, False, False, 0))
        found = {topic: alarm["name"] for topic, alarm in told(peer)}
        peer.disconnect()
        return found

    assert seen("#") == {"activate": "client/a+b", "active/disk": "disk", "active/client%2Fa%2Bb": "client/a+b"}
    assert seen("activate") == {"activate": "client/a+b"}
    alarms.deactivate("client/a+b")
    assert seen("#") == {"activate": "disk", "active/disk": "disk"}
    alarms.deactivate("disk")
    assert seen("#") == {}


def test_retained_messages_of_clients_are_found_beside_them() -> None:
    node = Node("sys_topics { allow_publish = true, sys_msg_interval = disabled, sys_heartbeat_interval = disabled }")
    node.connect("c").publish(PREFIX + "mine", b"{}", retain=True)
    node.alarms.activate("disk", "the disk is full", {})
    node.advance(1)
    peer = node.connect()
    peer.send_subscribe(p.SubscribeEntry(PREFIX + "#", 0, False, False, 0))
    assert [topic for topic, _ in told(peer)] == ["activate", "active/disk", "mine"]


def test_the_retainer_behind_refuses_as_before() -> None:
    node = Node()
    node.broker.is_refusing = True
    peer = node.connect()
    for refusal, answer in ((0x97, "PUBACK #1 0x97"), (0, "PUBACK #1 0x10")):
        node.retainer.refusal = refusal
        peer.publish("t", b"", 1, 1, retain=True)
        assert peer.heard() == [answer]
