"""Rules about events: each fires, and has its columns."""

import json
from dataclasses import replace
from typing import Any

from heliograph.broker import hooks
from heliograph.broker.message import make_message
from heliograph.channel.options import ChannelOptions
from heliograph.config.rules import RuleConfig
from heliograph.mqtt import packets as p
from heliograph.rules.events import COMMON_COLUMNS, EVENTS
from support.cases import cases
from support.options import CHANNEL, LISTENER, SESSION
from support.services import Node


def watching(
    topic: str, settings: str = "", options: ChannelOptions | None = None, select: str = "*"
) -> tuple[Node, list[dict[str, Any]]]:
    """A node with a rule about an event, and the rows that the rule gives."""
    action = 'actions = [{ function = republish, args { topic = rows, payload = "${.}" } }]'
    node = Node(
        f'rule_engine.rules.r1 {{ sql = """SELECT {select} FROM "{topic}" """, {action} }}\n{settings}', options
    )
    rows: list[dict[str, Any]] = []

    def look(message: Any, *_: object) -> object:
        if message.topic != "rows":
            return None
        rows.append(json.loads(message.payload))
        return hooks.STOP, None

    node.broker.hooks.message_publish.add(look, 1000, lambda topic: topic == "rows")
    return node, rows


def expected(row: dict[str, Any], **values: Any) -> None:
    assert {name: row.get(name) for name in values} == values
    assert row["metadata"] == {"rule_id": "r1"}
    assert row["node"] == "heliograph@127.0.0.1"
    assert row["timestamp"] >= 1_700_000_000_000


@cases("event", EVENTS, ids=lambda event: event.name)
def test_every_event_fires_with_its_columns_under_each_of_its_topics(event: Any) -> None:
    for topic in event.topics:
        node, rows = watching(topic, options=_options())
        _cause_everything(node)
        found = [row for row in rows if row["event"] == event.name]
        assert found
        assert len(found) == len(rows)
        assert set().union(*(row.keys() for row in found)) == {*event.columns, *COMMON_COLUMNS}


@cases("event", EVENTS, ids=lambda event: event.name)
def test_a_column_that_an_event_does_not_list_is_undefined(event: Any) -> None:
    """Also where a rule asks for it by its name."""
    others = sorted({column for other in EVENTS for column in other.columns} - {*event.columns, *COMMON_COLUMNS})
    # Under other names: the action looks for a `qos` in the row.
    selected = ", ".join(f"is_null({column}) AS no_{column}" for column in others)
    node, rows = watching(event.topics[0], options=_options(), select=selected)
    _cause_everything(node)
    assert rows
    assert all(row == {f"no_{column}": True for column in others} for row in rows)


def _options() -> ChannelOptions:
    """Where everything has a value: a mountpoint, and clients for whom messages are dropped while they are there."""
    session = replace(SESSION, max_inflight=1, max_mqueue_len=1, mqueue_store_qos0=True)
    return replace(CHANNEL, session=session, listener=replace(LISTENER, mountpoint="m/"))


def _cause_everything(node: Node) -> None:
    node.broker.hooks.client_authorize.add(lambda *_: None)
    late = node.connect("late", session_expiry_interval=600)
    late.subscribe("t", 1)
    late.drop()
    peer = node.connect("c1", username="u1", keepalive_s=60)
    peer.subscribe("t", 1)
    for number in range(3):
        peer.publish("t", b"{}", 1, 10 + number)
    peer.ack(p.PUBACK, 1)
    peer.publish("nobody", b"x")
    peer.skip()
    peer.unsubscribe("t")
    message = make_message(1, 1, "t", b"x", 0, False, b"", "c1", "u1")
    node.broker.hooks.run(hooks.SCHEMA_VALIDATION_FAILED, (message, "v1"))
    node.broker.hooks.run(hooks.MESSAGE_TRANSFORMATION_FAILED, (message, "x1"))
    node.alarms.activate("a1", "it burns", {"level": 1})
    node.alarms.deactivate("a1")
    peer.disconnect()
    node.run()


def test_connected_and_disconnected() -> None:
    node, rows = watching("$events/client/connected")
    node.connect("c1", username="u1", keepalive_s=60, session_expiry_interval=30, user_property=[("k", "v")])
    (row,) = rows
    expected(
        row,
        clientid="c1",
        username="u1",
        peername="192.0.2.1:50000",
        sockname="192.0.2.2:1883",
        proto_name="MQTT",
        proto_ver=5,
        keepalive=60,
        clean_start=True,
        expiry_interval=30,
        is_bridge=False,
        connected_at=1_700_000_000_000,
    )
    assert row["conn_props"]["User-Property"] == {"k": "v"}
    node, rows = watching("$events/client_disconnected")
    node.connect("c1").disconnect()
    expected(rows[0], reason="normal", clientid="c1")


@cases(("version", "name"), [(5, "success"), (4, "connection_accepted")])
def test_the_connack_is_named_by_version(version: int, name: str) -> None:
    node, rows = watching("$events/client_connack")
    node.connect("c1", version=version)
    expected(rows[0], reason_code=name, clientid="c1", proto_ver=version)


def test_a_refused_client_is_told_of() -> None:
    settings = ""
    for topic in ("$events/client_connack", "$events/auth/check_authn_complete"):
        node, rows = watching(topic, settings)
        node.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *_: (hooks.STOP, 0x86))
        node.peer(4).connect("c1", username="u1")
        node.run()
        wanted = "malformed_username_or_password" if "connack" in topic else "bad_username_or_password"
        expected(rows[0], reason_code=wanted, clientid="c1", username="u1")


def test_who_is_anonymous_was_not_looked_at() -> None:
    node, rows = watching("$events/client_check_authn_complete")
    node.connect("c1")
    expected(rows[0], reason_code="success", is_anonymous=True, is_superuser=False)
    node.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(lambda *_: (hooks.STOP, 0))
    node.connect("c2")
    expected(rows[1], clientid="c2", is_anonymous=False)


def test_authorization_is_told_of_with_its_result() -> None:
    node, rows = watching("$events/client_check_authz_complete")
    node.broker.hooks.client_authorize.add(lambda client, action, topic, verdict: (hooks.STOP, "deny"))
    node.connect("c1").publish("t", b"")
    expected(rows[0], clientid="c1", action="publish", topic="t", result="deny", peerhost="192.0.2.1")


def test_deliveries_name_both_clients() -> None:
    node, rows = watching("$events/message_delivered")
    receiver = node.connect("to", username="u-to")
    receiver.subscribe("t", 1)
    node.connect("from", username="u-from").publish("t", b'{"a":1}', 1, 1)
    expected(
        rows[0],
        clientid="to",
        username="u-to",
        from_clientid="from",
        from_username="u-from",
        topic="t",
        qos=1,
        payload='{"a":1}',
        flags={"dup": False, "retain": False},
        pub_props={},
    )


def test_payloads_of_events_can_be_looked_into() -> None:
    action = 'actions = [{ function = republish, args { topic = rows, payload = "${a} ${reason}" } }]'
    sql = """SELECT payload.a AS a, reason FROM "$events/message_dropped" WHERE payload.a > 0"""
    node = Node(f'rule_engine.rules.r1 {{ sql = """{sql} """, {action} }}')
    peer = node.connect("c")
    peer.subscribe("rows")
    peer.publish("t", b'{"a":1}')
    peer.publish("t", b'{"a":0}')
    assert peer.heard() == ["PUBLISH rows '1 no_subscribers' q0"]


def test_what_the_broker_says_itself_is_no_event() -> None:
    node, rows = watching("$events/message_delivered", "sys_topics.sys_msg_interval = 1s")
    peer = node.connect("c")
    peer.subscribe("$SYS/#")
    node.advance(2)
    assert peer.heard()
    assert rows == []


def test_only_hook_points_that_rules_name_have_callbacks() -> None:
    node, _ = watching("$events/client_connected")
    point = node.broker.hooks.point
    assert not node.broker.hooks.message_delivered.callbacks
    before = len(point(hooks.CLIENT_CONNECTED).callbacks)
    node.change_rules(r1=None)
    assert len(point(hooks.CLIENT_CONNECTED).callbacks) == before - 1
    decisions = len(point(hooks.CLIENT_CHECK_AUTHN_COMPLETE).callbacks)  # failed logins are counted by address
    node.change_rules(r2=RuleConfig(sql='SELECT * FROM "$events/auth/check_authn_complete"'))
    assert len(point(hooks.CLIENT_CHECK_AUTHN_COMPLETE).callbacks) == decisions + 1


def test_a_filter_may_name_several_events() -> None:
    node, rows = watching("$events/session/#")
    peer = node.connect("c")
    peer.subscribe("t")
    peer.unsubscribe("t")
    assert [row["event"] for row in rows] == ["session.subscribed", "session.unsubscribed"]


def test_the_properties_of_packets_are_told() -> None:
    node, rows = watching("$events/#")
    peer = node.connect("c")
    pairs = [("k", "v"), ("k", "w")]
    peer.subscribe("t", 1, user_property=pairs, subscription_identifier=[7])
    peer.unsubscribe("t", user_property=pairs)
    peer.disconnect(user_property=pairs, reason_string="enough")
    user = {"User-Property": {"k": "w"}, "User-Property-Pairs": [{"key": key, "value": text} for key, text in pairs]}
    found = {row["event"]: row for row in rows}
    assert found["session.subscribed"]["sub_props"] == {"Subscription-Identifier": 7, **user}
    assert found["session.unsubscribed"]["unsub_props"] == user
    assert found["session.unsubscribed"]["qos"] == 1
    assert found["client.disconnected"]["disconn_props"] == {"Reason-String": "enough", **user}
    node, rows = watching("$events/client_disconnected")
    node.connect("c").drop()
    assert rows[0]["disconn_props"] == {}
