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
    alarms = node.services.alarms
    assert alarms.activate("disk", "the disk is full", {"path": "/d"})
    assert not alarms.activate("disk", "the disk is still full", {})
    node.advance(1)
    ((event, alarm),) = told(watcher)
    assert event == "activate"
    assert (alarm["name"], alarm["message"], alarm["details"]) == ("disk", "the disk is full", {"path": "/d"})
    assert (alarm["activated"], alarm["deactivate_at"]) == (True, "infinity")
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
    alarms = node.services.alarms
    assert [alarms.activate(f"a{n}", "", {}) for n in range(1001)] == [True] * 1000 + [False]
    assert alarms.statistics() == {"alarms.active": 1000, "alarms.dropped": 1}
