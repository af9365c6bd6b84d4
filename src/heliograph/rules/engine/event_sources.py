"""Events as rules see them: which hook points the rules of a node need, and the columns of each event.

Only hook points that some rule names have a callback. Events about messages that the broker makes itself (`$SYS`) are
left out, so that events of events end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import orjson

from heliograph.broker import hooks
from heliograph.broker.actions import Action, Decision
from heliograph.broker.client import ClientInfo
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from heliograph.observe.alarms import Alarm
from heliograph.observe.outgoing import SYSTEM_CLIENTID
from heliograph.rules.engine.columns import EventColumns, NodeFacts, client_values, shown_properties
from heliograph.rules.events import EVENTS, Event, find_event
from heliograph.rules.json_text import decode_json
from heliograph.rules.values import UNDEFINED, Value

if TYPE_CHECKING:
    from heliograph.rules.engine.running import RunningRule

_CONNECTING_MAX: Final = 10_000  # clients whose CONNECT waits for its CONNACK

# What the return codes of a CONNACK of MQTT 3 are called in events; the slip of the pen is EMQX's, and rules know it.
_CONNACK_V3: Final = (
    "connection_accepted",
    "unacceptable_protocol_version",
    "client_identifier_not_valid",
    "server_unavaliable",
    "malformed_username_or_password",
    "unauthorized_client",
)


class EventSources:
    """Which rules each event is for; owned by the engine."""

    def __init__(self, broker: Broker, node: NodeFacts, priority: int) -> None:
        self._broker = broker
        self._node = node
        self._priority = priority
        self._rules: dict[str, tuple[RunningRule, ...]] = {}
        self._connecting: OrderedDict[str, Properties] = OrderedDict()  # by client and address
        self._callbacks: dict[str, list[tuple[str, Callable[..., None]]]] = {
            "client.connected": [(hooks.CLIENT_CONNECTED, self.on_client_connected)],
            "client.disconnected": [(hooks.CLIENT_DISCONNECTED, self.on_client_disconnected)],
            "client.connack": [
                (hooks.CLIENT_CONNECT, self.on_client_connect),
                (hooks.CLIENT_CONNACK, self.on_client_connack),
            ],
            "client.check_authn_complete": [(hooks.CLIENT_CHECK_AUTHN_COMPLETE, self.on_check_authn_complete)],
            "client.check_authz_complete": [(hooks.CLIENT_CHECK_AUTHZ_COMPLETE, self.on_check_authz_complete)],
            "session.subscribed": [(hooks.SESSION_SUBSCRIBED, self.on_session_subscribed)],
            "session.unsubscribed": [(hooks.SESSION_UNSUBSCRIBED, self.on_session_unsubscribed)],
            "message.delivered": [(hooks.MESSAGE_DELIVERED, self.on_message_delivered)],
            "message.acked": [(hooks.MESSAGE_ACKED, self.on_message_acked)],
            "message.dropped": [(hooks.MESSAGE_DROPPED, self.on_message_dropped)],
            "delivery.dropped": [(hooks.DELIVERY_DROPPED, self.on_delivery_dropped)],
            "schema.validation_failed": [(hooks.SCHEMA_VALIDATION_FAILED, self.on_validation_failed)],
            "message.transformation_failed": [(hooks.MESSAGE_TRANSFORMATION_FAILED, self.on_transformation_failed)],
            "alarm.activated": [(hooks.ALARM_ACTIVATED, self.on_alarm_activated)],
            "alarm.deactivated": [(hooks.ALARM_DEACTIVATED, self.on_alarm_deactivated)],
        }

    def add(self, rule: RunningRule) -> None:
        for event in EVENTS:
            if any(event.matches(topic) for topic in rule.compiled.topics):
                rules = self._rules.get(event.name, ())
                self._rules[event.name] = (*rules, rule)
                if not rules:
                    for point, callback in self._callbacks[event.name]:
                        self._broker.hooks.point(point).add(callback, self._priority)

    def remove(self, rule: RunningRule) -> None:
        """Forget a rule; unused hook points lose their callbacks."""
        for name, rules in list(self._rules.items()):
            left = tuple(other for other in rules if other is not rule)
            if left:
                self._rules[name] = left
                continue
            del self._rules[name]
            for point, callback in self._callbacks[name]:
                self._broker.hooks.point(point).remove(callback)

    # --- clients

    def on_client_connected(self, client: ClientInfo, connect: p.Connect, _accumulator: object) -> None:
        values = {
            **_connection(client),
            "expiry_interval": int(client.expiry_interval_s),
            "is_bridge": False,
            "conn_props": shown_properties(connect.properties),
        }
        self._tell("client.connected", values)

    def on_client_disconnected(
        self, client: ClientInfo, reason: str, properties: Properties, _accumulator: object
    ) -> None:
        values = {
            **_connection(client),
            "reason": reason,
            "disconn_props": shown_properties(properties),
            "disconnected_at": self._now_ms(),
        }
        self._tell("client.disconnected", values)

    def on_client_connect(self, client: ClientInfo, connect: p.Connect, _accumulator: object) -> None:
        """Callback of `client.connect`: remember the properties until the CONNACK."""
        self._connecting[_key(client)] = connect.properties
        if len(self._connecting) > _CONNECTING_MAX:
            self._connecting.popitem(last=False)

    def on_client_connack(self, client: ClientInfo, code: int, _accumulator: object) -> None:
        properties = self._connecting.pop(_key(client), None)
        values = {
            **_connection(client),
            "reason_code": _connack_name(code, client.version),
            "expiry_interval": int(client.expiry_interval_s) * 1000,
            "conn_props": {} if properties is None else shown_properties(properties),
        }
        self._tell("client.connack", values)

    def on_check_authn_complete(
        self, client: ClientInfo, code: int, is_superuser: bool, is_anonymous: bool, _accumulator: object
    ) -> None:
        values = {
            **client_values(client),
            "reason_code": rc.name_of(code),
            "is_superuser": is_superuser,
            "is_anonymous": is_anonymous,
        }
        self._tell("client.check_authn_complete", values)

    def on_check_authz_complete(
        self, client: ClientInfo, action: Action, topic: str, decision: Decision, _accumulator: object
    ) -> None:
        values = {
            **client_values(client),
            "topic": topic,
            "action": action.kind,
            "authz_source": decision.source,
            "result": decision.result,
        }
        self._tell("client.check_authz_complete", values)

    # --- sessions

    def on_session_subscribed(
        self, clientid: str, topic_filter: str, qos: int, properties: Properties, _accumulator: object
    ) -> None:
        values = {**self._client(clientid), "topic": topic_filter, "qos": int(qos)}
        self._tell("session.subscribed", {**values, "sub_props": shown_properties(properties)})

    def on_session_unsubscribed(
        self, clientid: str, topic_filter: str, qos: int, properties: Properties, _accumulator: object
    ) -> None:
        values = {**self._client(clientid), "topic": topic_filter, "qos": int(qos)}
        self._tell("session.unsubscribed", {**values, "unsub_props": shown_properties(properties)})

    # --- messages

    def on_message_delivered(self, clientid: str, message: Message, _accumulator: object) -> None:
        if message.clientid != SYSTEM_CLIENTID:
            self._tell("message.delivered", self._delivery(clientid, message), message)

    def on_message_acked(self, clientid: str, message: Message, _accumulator: object) -> None:
        if message.clientid != SYSTEM_CLIENTID:
            self._tell("message.acked", {**self._delivery(clientid, message), "puback_props": {}}, message)

    def on_delivery_dropped(self, clientid: str, message: Message, reason: str, _accumulator: object) -> None:
        if message.clientid != SYSTEM_CLIENTID:
            self._tell("delivery.dropped", {**self._delivery(clientid, message), "reason": reason}, message)

    def on_message_dropped(self, message: Message, reason: str, _accumulator: object) -> None:
        if message.clientid != SYSTEM_CLIENTID:
            self._tell("message.dropped", {**self._publisher(message), "reason": reason}, message)

    def on_validation_failed(self, message: Message, name: str, _accumulator: object) -> None:
        self._tell("schema.validation_failed", {**self._publisher(message), "validation": name}, message)

    def on_transformation_failed(self, message: Message, name: str, _accumulator: object) -> None:
        self._tell("message.transformation_failed", {**self._publisher(message), "transformation": name}, message)

    # --- alarms

    def on_alarm_activated(self, alarm: Alarm, _accumulator: object) -> None:
        self._tell("alarm.activated", _alarm_values(alarm))

    def on_alarm_deactivated(self, alarm: Alarm, _accumulator: object) -> None:
        self._tell("alarm.deactivated", {**_alarm_values(alarm), "deactivated_at": alarm.deactivate_at})

    # --- inside

    def _tell(self, name: str, values: dict[str, Value], message: Message | None = None) -> None:
        event = _event(name)
        values["event"] = name
        values["timestamp"] = self._now_ms()
        kept = {column: value for column, value in values.items() if column in event.columns or column in _COMMON}
        columns = EventColumns(event, kept, self._node, message)
        for rule in self._rules.get(name, ()):
            rule.take(columns)

    def _client(self, clientid: str) -> dict[str, Value]:
        client = self._node.find_client(clientid)
        return {"clientid": clientid} if client is None else client_values(client)

    def _publisher(self, message: Message) -> dict[str, Value]:
        username: Value = UNDEFINED if message.username is None else message.username
        return {**self._client(message.clientid), "username": username}

    def _delivery(self, clientid: str, message: Message) -> dict[str, Value]:
        return {
            **self._client(clientid),
            "from_clientid": message.clientid,
            "from_username": UNDEFINED if message.username is None else message.username,
        }

    def _now_ms(self) -> int:
        return self._broker.now_us // 1000


_COMMON: Final = ("event", "timestamp")


def _event(name: str) -> Event:
    event = find_event(name)
    assert event is not None
    return event


def _connection(client: ClientInfo) -> dict[str, Value]:
    return {
        **client_values(client),
        "keepalive": int(client.keepalive_s),
        "clean_start": client.clean_start,
        "connected_at": int(client.connected_at_us) // 1000,
    }


def _key(client: ClientInfo) -> str:
    return f"{client.peername} {client.clientid}"


def _connack_name(code: int, version: int) -> str:
    return rc.name_of(code) if version == p.V5 else _CONNACK_V3[rc.connack_return_code(code)]


def _alarm_values(alarm: Alarm) -> dict[str, Value]:
    return {
        "name": alarm.name,
        "message": alarm.message,
        "details": decode_json(orjson.dumps(dict(alarm.details), default=str)),
        "activated_at": alarm.activate_at,
    }
