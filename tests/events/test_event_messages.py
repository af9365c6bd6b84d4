"""Events below `$events/`, as clients see them."""

import json

from heliograph.mqtt import packets as p
from support.kernel import Peer
from support.services import Node

ALL = """
sys_topics { sys_msg_interval = disabled, sys_heartbeat_interval = disabled }
event_message {
  client_connected = true, client_disconnected = true, session_subscribed = true, session_unsubscribed = true
  message_delivered = true, message_acked = true, message_dropped = true, delivery_dropped = true
}
"""


def events(peer: Peer) -> list[tuple[str, dict[str, object]]]:
    """The events that a client received since the last look, without the part of the topic that they share."""
    return [
        (packet.topic.decode().removeprefix("$events/"), json.loads(packet.payload))
        for packet in peer.received()
        if isinstance(packet, p.Publish)
    ]


def watching(node: Node, qos: int = 0) -> Peer:
    """A client that listens, and has seen the event of its own subscription."""
    peer = node.connect("watcher")
    peer.send_subscribe(p.SubscribeEntry("$events/#", qos, False, False, 0))
    assert [name for name, _ in events(peer)] == ["session_subscribed"]
    return peer


def test_a_whole_life() -> None:
    node = Node(ALL)
    watcher = watching(node)
    peer = node.connect("c", username="joe")
    peer.subscribe("t", 1)
    node.connect("s", username="sue").publish("t", b"x", 1, 5)
    peer.ack(p.PUBACK, 1)
    peer.skip()
    peer.unsubscribe("t")
    peer.publish("t", b"y")
    peer.disconnect()
    node.run()
    told = events(watcher)
    assert [(name, fields["clientid"]) for name, fields in told] == [
        ("client_connected", "c"),
        ("session_subscribed", "c"),
        ("client_connected", "s"),
        ("message_delivered", "c"),
        ("message_acked", "c"),
        ("session_unsubscribed", "c"),
        ("message_dropped", "c"),
        ("client_disconnected", "c"),
    ]


def test_a_client_that_connects_and_leaves() -> None:
    node = Node(ALL)
    watcher = watching(node)
    peer = node.connect("c", username="joe", keepalive_s=60, session_expiry_interval=30, user_property=[("a", "1")])
    ((name, connected),) = events(watcher)
    assert name == "client_connected"
    now_ms = node.now_us // 1000
    expected = {
        "clientid": "c",
        "username": "joe",
        "peername": "192.0.2.1:50000",
        "ipaddress": "192.0.2.1",
        "proto_name": "MQTT",
        "proto_ver": 5,
        "keepalive": 60,
        "clean_start": True,
        "expiry_interval": 30,
        "connected_at": now_ms,
        "mountpoint": None,
        "is_bridge": False,
        "conn_props": {
            "Session-Expiry-Interval": 30,
            "User-Property": {"a": "1"},
            "User-Property-Pairs": [{"key": "a", "value": "1"}],
        },
    }
    assert {field: connected[field] for field in expected} == expected
    peer.drop()
    node.run()
    ((name, left),) = events(watcher)
    assert (name, left["reason"], left["disconnected_at"]) == ("client_disconnected", "tcp_closed", now_ms)


def test_secrets_do_not_appear() -> None:
    node = Node(ALL)
    watcher = watching(node)
    peer = node.peer()
    peer.connect("c", username="joe", password=b"sesame")
    node.run()
    assert b"sesame" not in watcher.wire.written


def test_a_message_that_is_delivered_and_acknowledged() -> None:
    node = Node(ALL)
    watcher = watching(node)
    peer = node.connect("c", username="joe")
    peer.subscribe("t", 1)
    sender = node.connect("s", username="sue")
    events(watcher)
    sender.publish("t", b'{"a": 1}', 1, 5, retain=True, content_type="json", correlation_data=b"\xff")
    peer.ack(p.PUBACK, 1)
    node.run()
    (first, delivered), (second, acked) = events(watcher)
    assert (first, second) == ("message_delivered", "message_acked")
    expected = {
        "from_clientid": "s",
        "from_username": "sue",
        "clientid": "c",
        "username": "joe",
        "peerhost": "192.0.2.1",
        "topic": "t",
        "qos": 1,
        "payload": '{"a": 1}',
        "flags": {"retain": True, "dup": False},
        "pub_props": {"Content-Type": "json", "Correlation-Data": "/w=="},
        "publish_received_at": node.now_us // 1000,
    }
    for fields in (delivered, acked):
        assert {field: fields[field] for field in expected} == expected
        assert len(str(fields["id"])) == 32


def test_a_message_that_nobody_wants() -> None:
    node = Node(ALL)
    watcher = watching(node)
    sender = node.connect("s", username="sue")
    events(watcher)
    sender.publish("t", b"\xff\xfe")
    node.run()
    ((name, dropped),) = events(watcher)
    assert name == "message_dropped"
    assert (dropped["reason"], dropped["clientid"], dropped["username"]) == ("no_subscribers", "s", "sue")
    assert (dropped["payload"], dropped["payload_encoding"]) == ("//4=", "base64")


def test_events_cause_no_events() -> None:
    node = Node(ALL)
    watcher = watching(node, 2)
    watcher.send_subscribe(p.SubscribeEntry("$SYS/#", 2, False, False, 0))
    sender = node.connect("s")
    for _ in range(5):
        sender.publish("t", b"x")
    node.run()
    names = [name for name, _ in events(watcher)]
    assert names.count("message_dropped") == 5
    assert names.count("message_delivered") == 0
    assert node.statistics()["system_messages.waiting"] == 0


def test_a_client_that_watches_its_own_deliveries() -> None:
    node = Node(ALL)
    peer = node.connect("c")
    peer.subscribe("$events/message_delivered", 1)
    peer.subscribe("t", 1)
    peer.publish("t", b"x", 1, 5)
    node.run()
    heard = [line.split(" '")[0].split(" b")[0] for line in peer.heard()]
    assert heard == ["PUBLISH t", "PUBACK #5", "PUBLISH $events/message_delivered"]


def test_what_is_dropped_for_lack_of_room_is_counted() -> None:
    node = Node(ALL)
    watching(node)
    sender = node.connect("s")
    for number in range(12_000):  # in one turn
        sender.feed(b"\x30\x04\x00\x01t\x00")
        assert len(node.voice.outgoing) <= 10_000, number
    node.run()
    assert node.statistics()["system_messages.dropped"] >= 1_900


def test_events_cost_nothing_unless_they_are_enabled() -> None:
    node = Node("delayed.enable = false")
    for point in ("message.publish", "message.delivered", "message.acked", "message.dropped", "session.subscribed"):
        assert node.broker.hooks.point(point).callbacks == []


def test_stop_takes_every_callback_out() -> None:
    node = Node(ALL)
    node.stop()
    for point in ("message.delivered", "client.connected", "client.disconnected", "client.connect", "session.created"):
        assert node.broker.hooks.point(point).callbacks == []


def test_a_delivery_that_is_dropped_names_its_receiver_and_why() -> None:
    node = Node(ALL)
    watcher = watching(node)
    peer = node.connect("slow", username="sue", maximum_packet_size=64)
    peer.subscribe("t")
    node.connect("s").publish("t", b"x" * 100)
    node.run()
    told = [fields for name, fields in events(watcher) if name == "delivery_dropped"]
    assert [(fields["clientid"], fields["from_clientid"], fields["reason"], fields["topic"]) for fields in told] == [
        ("slow", "s", "too_large", "t")
    ]
