"""What the log tells of clients."""

import logging
from dataclasses import replace

import pytest

from heliograph.access.bans.ban_table import Ban
from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Peer
from support.options import CHANNEL, SESSION
from support.services import Node

_LOGGERS = ("heliograph.clients", "heliograph.observe.alarms")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name in _LOGGERS]
    caplog.clear()
    return found


def test_who_comes_and_goes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Node()
    peer = node.connect("c", username="joe", keepalive_s=60, session_expiry_interval=30)
    (line,) = lines(caplog)
    assert line.startswith("client 'c' connected from 192.0.2.1:50000 to ")
    assert line.endswith("(MQTT 5, user 'joe', clean start True, keepalive 60 s, session 30 s)")
    peer.subscribe("t")
    assert lines(caplog) == []
    node.connect("c")
    gone, came = lines(caplog)
    assert gone == (
        "client 'c' at 192.0.2.1:50000 disconnected: discarded: another connection with this client id took its place"
    )
    assert came.startswith("client 'c' connected from")
    node.connect("d").disconnect()
    assert lines(caplog)[-1] == "client 'd' at 192.0.2.1:50000 disconnected: normal"


def test_subscriptions_are_told_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    node = Node()
    peer = node.connect("c")
    lines(caplog)
    peer.subscribe("t/#", 1)
    peer.unsubscribe("t/#")
    assert lines(caplog) == ["client 'c' subscribed to 't/#' at QoS 1", "client 'c' unsubscribed from 't/#'"]


def test_what_the_level_leaves_out_has_no_callback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    node = Node("event_message {}, delayed.enable = false")
    before = node.statistics()
    assert node.broker.hooks.point(hooks.CLIENT_CHECK_AUTHZ_COMPLETE).callbacks == []
    assert node.broker.hooks.point(hooks.SESSION_SUBSCRIBED).callbacks == []
    node.connect("c").disconnect()
    assert lines(caplog) == []
    assert before["mqueue_overflow.active"] == 0


def test_denials_are_told_and_bounded_for_each_client(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Node("authorization { no_match = deny, cache.enable = false }")
    node.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(lambda *asked: (hooks.STOP, "deny"))
    loud, other = node.connect("loud"), node.connect("other")
    lines(caplog)
    for number in range(20):
        loud.publish(f"t/{number}", b"x")
    other.subscribe("u/#")
    told = lines(caplog)
    assert told[0] == "client 'loud' at 192.0.2.1:50000 may not publish to 't/0'"
    assert len([line for line in told if "'loud'" in line]) == 5
    assert told[-1] == "client 'other' at 192.0.2.1:50000 may not subscribe to 'u/#'"


def test_a_publish_below_sys_is_a_denial(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Node()
    peer = node.connect("forger")
    lines(caplog)
    peer.publish("$SYS/x", b"x")
    assert lines(caplog) == ["client 'forger' at 192.0.2.1:50000 may not publish to '$SYS/x'"]


def slow_reader(node: Node) -> Peer:
    """A durable subscriber that is away, whose queue is short."""
    peer = node.connect("slow", session_expiry_interval=600)
    peer.subscribe("t", 1)
    peer.drop()
    return peer


def test_a_full_queue_is_told_once_while_it_is_full_with_an_alarm_that_clears(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    node = Node("", replace(CHANNEL, session=replace(SESSION, max_mqueue_len=2)))
    slow_reader(node)
    lines(caplog)
    publisher = node.connect("pub")
    for second in range(8):
        for _ in range(5):
            publisher.publish("t", b"x", 1, 1)
        publisher.skip()
        node.advance(0.5)
        assert [alarm.name for alarm in node.alarms.active()] == ["mqueue_overflow/slow"], second
    told = [line for line in lines(caplog) if "slow" in line]
    assert len(told) == 2
    assert told[0].startswith(
        "alarm mqueue_overflow/slow has begun: client 'slow' takes its messages too slowly or is away: its queue is"
    )
    assert told[1] == "3 messages for client 'slow' were dropped: queue_full"
    assert not node.alarms.active()[0].degrades  # the node does its work
    node.advance(11)
    assert node.alarms.active() == []
    assert [line for line in lines(caplog) if "slow" in line] == [
        "35 messages for client 'slow' were dropped: queue_full",
        "alarm mqueue_overflow/slow has ended",
    ]
    assert node.statistics()["delivery.droppers"] == 0
    publisher.publish("t", b"x", 1, 1)
    node.advance(0.5)
    assert [alarm.name for alarm in node.alarms.active()] == ["mqueue_overflow/slow"]


def test_what_a_client_does_not_want_is_no_drop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Node()
    peer = node.connect("c")
    peer.send_subscribe(p.SubscribeEntry("t", 0, True, False, 0))
    peer.skip()
    lines(caplog)
    peer.publish("t", b"x")
    node.advance(1)
    assert lines(caplog) == []
    session = node.sessions.held("c")
    assert session is not None
    assert session.sender.dropped_count == 0


def test_many_droppers_leave_room_for_other_alarms() -> None:
    node = Node("", replace(CHANNEL, session=replace(SESSION, max_mqueue_len=1)))
    for number in range(150):
        peer = node.connect(f"s{number}", session_expiry_interval=600)
        peer.subscribe("t", 1)
        peer.drop()
    publisher = node.connect("pub")
    for _ in range(3):
        publisher.publish("t", b"x", 1, 1)
    node.advance(0.5)
    assert len(node.alarms.active()) == 100
    assert node.statistics()["mqueue_overflow.missed"] == 50
    assert node.statistics()["delivery.droppers"] == 150


def test_clients_that_fight_over_an_id_raise_an_alarm_until_they_stop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Node()
    for _ in range(4):
        node.connect("twin")
        node.advance(1)
    assert node.alarms.active() == []
    for _ in range(5):
        node.connect("twin")
        node.advance(1)
    (alarm,) = node.alarms.active()
    assert alarm.name == "clientid_conflict/twin"
    assert "give each a client id of its own" in alarm.message
    assert len([line for line in lines(caplog) if ": several clients use the client id 'twin'" in line]) == 1
    node.advance(31)
    assert node.alarms.active() == []
    assert lines(caplog) == ["alarm clientid_conflict/twin has ended"]


def test_a_client_that_comes_back_now_and_then_fights_with_nobody() -> None:
    node = Node()
    for _ in range(20):
        node.connect("c")
        node.advance(15)
    assert node.alarms.active() == []


def test_a_flood_of_connections_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Node()
    node.bans.add(Ban("clientid", "x", "", "", 0, 1 << 40))
    told: list[ClientInfo] = []
    node.broker.hooks.point(hooks.CLIENT_CONNECTED).add(lambda client, *more: told.append(client))
    for number in range(2000):
        node.connect(f"c{number}")
    assert len(told) == 2000
    assert len(lines(caplog)) == 1200


@cases("clientid", ["c" * 65_535, "/" * 65_535], ids=["plain", "escaped"])
def test_the_longest_client_id_raises_alarms_that_end(clientid: str) -> None:
    node = Node("", replace(CHANNEL, session=replace(SESSION, max_mqueue_len=1)))
    for _ in range(5):
        node.connect(clientid, session_expiry_interval=600).subscribe("t", 1)
    channel = node.context.channels.find(clientid)
    assert channel is not None
    channel.cut(rc.SUCCESS, "gone")
    publisher = node.connect("pub")
    for _ in range(3):
        publisher.publish("t", b"x", 1, 1)
    node.advance(0.5)
    names = [alarm.name for alarm in node.alarms.active()]
    assert sorted(name.partition("/")[0] for name in names) == ["clientid_conflict", "mqueue_overflow"]
    assert all(len(name) < 250 for name in names)
    watcher = node.connect("watcher")
    watcher.send_subscribe(p.SubscribeEntry("$SYS/brokers/+/alarms/active/#", 0, False, False, 0))
    assert len([packet for packet in watcher.received() if isinstance(packet, p.Publish)]) == 2
    node.advance(40)
    node.advance(1)
    assert node.alarms.active() == []
