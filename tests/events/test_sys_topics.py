"""The `$SYS` topics, as clients see them."""

import json
from datetime import datetime

from heliograph import __version__
from heliograph.mqtt import packets as p
from heliograph.observe.metrics import METRICS, STATISTICS
from support.cases import cases
from support.kernel import Peer
from support.services import Node

NODE = "$SYS/brokers/heliograph@127.0.0.1/"


def told(peer: Peer) -> dict[str, bytes]:
    """What a client received, by topic below the node's."""
    messages = [packet for packet in peer.received() if isinstance(packet, p.Publish)]
    return {message.topic.decode().removeprefix(NODE): message.payload for message in messages}


def watching(node: Node, topic_filter: str = "$SYS/#") -> Peer:
    """A client that has seen what is retained, and now listens."""
    peer = node.connect("watcher")
    peer.send_subscribe(p.SubscribeEntry(topic_filter, 0, False, False, 2))
    peer.skip()
    return peer


def test_what_does_not_change_is_retained() -> None:
    node = Node()
    node.advance(0.5)
    late = node.connect()
    late.send_subscribe(p.SubscribeEntry("$SYS/#", 0, False, False, 0))
    assert set(told(late)) == {"$SYS/brokers", "version", "sysdescr"}
    late.send_subscribe(p.SubscribeEntry("$SYS/brokers", 0, False, False, 0))
    assert told(late)["$SYS/brokers"] == b"heliograph@127.0.0.1"
    late.send_subscribe(p.SubscribeEntry(NODE + "version", 0, False, False, 0))
    assert told(late)["version"] == __version__.encode()


def test_uptime_and_date_come_with_each_heartbeat() -> None:
    node = Node()
    watcher = watching(node, NODE + "+")
    node.advance(0.5)
    assert told(watcher)["uptime"] == b"0"
    node.advance(29.5)
    assert told(watcher) == {}
    node.advance(0.5)
    heartbeat = told(watcher)
    assert set(heartbeat) == {"uptime", "datetime"}
    assert heartbeat["uptime"] == b"30000"
    assert datetime.fromisoformat(heartbeat["datetime"].decode()).tzinfo is not None


def test_statistics_and_metrics_come_with_each_interval() -> None:
    node = Node("sys_topics.sys_heartbeat_interval = disabled")
    watcher = watching(node)
    publisher = node.connect("c")
    node.connect("gone").disconnect()
    node.advance(0.5)
    told(watcher)
    watcher.subscribe("t", 1)
    publisher.publish("t", b"x", 1, 5)
    publisher.publish("nobody", b"x")
    node.advance(60)
    numbers = {
        topic: int(payload) for topic, payload in told(watcher).items() if topic.startswith(("stats", "metrics"))
    }
    expected = {
        "stats/connections/count": 2,
        "stats/connections/max": 2,
        "stats/live_connections/count": 2,
        "stats/sessions/count": 2,
        "stats/subscriptions/count": 2,
        "stats/subscriptions/shared/count": 0,
        "stats/topics/count": 2,
        "stats/retained/count": 3,
        "stats/delayed/count": 0,
        "metrics/packets/connect/received": 3,
        "metrics/packets/publish/received": 2,
        "metrics/messages/qos0/received": 1,
        "metrics/messages/qos1/received": 1,
        "metrics/messages/dropped": 1,
        "metrics/messages/dropped/no_subscribers": 1,
        "metrics/packets/disconnect/received": 1,
        "metrics/client/connected": 3,
        "metrics/client/disconnected": 1,
        "metrics/session/created": 3,
        "metrics/session/terminated": 1,
    }
    assert {name: numbers.get(name) for name in expected} == expected
    assert numbers["metrics/bytes/received"] > 0
    node.advance(59)
    assert told(watcher) == {}
    node.advance(1)
    assert int(told(watcher)["stats/connections/count"]) == 2


def test_every_name_of_the_catalogue_is_published() -> None:
    node = Node()
    watcher = watching(node)
    node.advance(0.5)
    names = set(told(watcher))
    assert {f"metrics/{name.replace('.', '/')}" for name in METRICS} <= names
    for name in STATISTICS:
        assert {f"stats/{name.replace('.', '/')}/count", f"stats/{name.replace('.', '/')}/max"} <= names


def test_a_maximum_stays_when_the_count_falls() -> None:
    node = Node()
    watcher = watching(node)
    peers = [node.connect(f"c{number}") for number in range(5)]
    node.advance(0.5)
    for peer in peers:
        peer.disconnect()
    node.advance(60)
    numbers = told(watcher)
    assert (numbers["stats/connections/count"], numbers["stats/connections/max"]) == (b"1", b"6")


def test_nothing_is_published_that_is_disabled() -> None:
    node = Node("sys_topics { sys_msg_interval = disabled, sys_heartbeat_interval = disabled }")
    watcher = watching(node)
    node.advance(1000)
    assert told(watcher) == {}


def test_intervals_are_the_operators() -> None:
    node = Node("sys_topics { sys_msg_interval = 5s, sys_heartbeat_interval = 1s }\nnode.name = n1@h")
    watcher = watching(node, "$SYS/brokers/n1@h/+")
    node.advance(1)
    watcher.skip()
    node.advance(1)
    assert [line.split()[1] for line in watcher.heard()] == ["$SYS/brokers/n1@h/uptime", "$SYS/brokers/n1@h/datetime"]


def test_a_round_for_many_subscribers_is_spread_over_turns() -> None:
    node = Node()
    peers = [node.connect(f"w{number}") for number in range(200)]
    for peer in peers:
        peer.subscribe("$SYS/#")
    node.now_us += 500_000
    node.broker.begin_turn(node.now_us)
    node.parts.tick(node.now_us)
    turns = 0
    while len(node.voice.outgoing):
        work = node.broker.work
        node.turn()
        assert node.broker.work - work < 16_384
        turns += 1
    assert turns > 2
    node.run()
    assert len({len(told(peer)) for peer in peers}) == 1


# --- events of clients


def test_a_client_that_connects_and_leaves() -> None:
    node = Node()
    watcher = watching(node, NODE + "clients/#")
    peer = node.connect("dev/1", username="joe", keepalive_s=60, session_expiry_interval=30)
    connected = json.loads(told(watcher)["clients/dev/1/connected"])
    now_ms = node.now_us // 1000
    assert connected == {
        "clientid": "dev/1",
        "username": "joe",
        "ipaddress": "192.0.2.1",
        "sockport": connected["sockport"],
        "protocol": "mqtt",
        "proto_name": "MQTT",
        "proto_ver": 5,
        "connected_at": now_ms,
        "ts": now_ms,
        "keepalive": 60,
        "clean_start": True,
        "expiry_interval": 30,
    }
    node.advance(5)
    watcher.skip()
    peer.drop()
    node.run()
    left = json.loads(told(watcher)["clients/dev/1/disconnected"])
    assert (left["reason"], left["connected_at"], left["disconnected_at"]) == ("tcp_closed", now_ms, now_ms + 5000)


def test_subscriptions_are_told_of_when_asked_for() -> None:
    node = Node("sys_topics.sys_event_messages { client_subscribed = true, client_unsubscribed = true }")
    watcher = watching(node, NODE + "clients/c/#")
    peer = node.connect(username="joe")
    peer.subscribe("t/#", 1)
    peer.unsubscribe("t/#")
    node.run()
    events = told(watcher)
    assert list(events) == ["clients/c/connected", "clients/c/subscribed", "clients/c/unsubscribed"]
    subscribed = json.loads(events["clients/c/subscribed"])
    assert (subscribed["topic"], subscribed["subopts"], subscribed["username"]) == ("t/#", {"qos": 1}, "joe")
    assert "subopts" not in json.loads(events["clients/c/unsubscribed"])


def test_events_that_are_switched_off_are_not_hooked_in() -> None:
    node = Node("sys_topics.sys_event_messages { client_connected = false, client_disconnected = false }")
    watcher = watching(node, NODE + "clients/#")
    node.connect().disconnect()
    node.run()
    assert told(watcher) == {}


@cases("clientid", ["+", "a/#", "x" * 65_500])
def test_a_client_whose_id_is_no_part_of_a_topic_does_no_harm(clientid: str) -> None:
    node = Node()
    watcher = watching(node, NODE + "clients/#")
    node.connect(clientid).disconnect()
    node.run()
    assert told(watcher) == {}
    assert node.hook_failures == []


def test_clients_leave_nothing_in_the_route_cache() -> None:
    node = Node()
    watcher = watching(node, NODE + "clients/#")
    before = node.statistics()["routes.cached"]
    for number in range(100):
        node.connect(f"c{number}").disconnect()
    node.run()
    assert len(told(watcher)) == 200
    assert node.statistics()["routes.cached"] == before


def test_nobody_listens_and_nothing_is_made() -> None:
    node = Node()
    for number in range(10):
        node.connect(f"c{number}").disconnect()
    assert node.statistics()["system_messages.published"] == 0
    assert node.statistics()["messages.publish"] == 0
