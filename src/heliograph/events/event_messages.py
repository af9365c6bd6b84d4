"""Events as messages below `$events/`: what happens to clients, sessions and messages.

A message that the broker made itself (an event, a `$SYS` topic) causes no message event: events of events would never
end. Payloads are JSON with the fields that EMQX's rule events have.
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Final

import orjson

from heliograph.broker.client import ClientInfo
from heliograph.broker.message import Message
from heliograph.events import client_events
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.observe.outgoing import SYSTEM_CLIENTID, SystemMessageQueue

PREFIX: Final = "$events/"


class EventMessages:
    """Publishes events of one node; owned by `EventMessagesPart`, which hooks in those that are wanted."""

    def __init__(
        self, outgoing: SystemMessageQueue, now_us: Callable[[], int], find_client: Callable[[str], ClientInfo | None]
    ) -> None:
        self._outgoing = outgoing
        self._now_us = now_us
        self._find_client = find_client

    def on_client_connected(self, client: ClientInfo, connect: p.Connect, _accumulator: object) -> None:
        if self._outgoing.wants("$events/client_connected"):
            fields = client_events.connected(client, connect, self._now_ms())
            fields.update(_addresses(client))
            fields["mountpoint"] = client.mountpoint or None
            fields["is_bridge"] = False
            fields["conn_props"] = _shown(connect.properties.named())
            self._put("client_connected", fields)

    def on_client_disconnected(self, client: ClientInfo, reason: str, *_more: object) -> None:
        if self._outgoing.wants("$events/client_disconnected"):
            fields = client_events.disconnected(client, reason, self._now_ms())
            fields.update(_addresses(client))
            self._put("client_disconnected", fields)

    def on_session_subscribed(self, clientid: str, topic_filter: str, qos: int, *_more: object) -> None:
        self._subscription("session_subscribed", clientid, topic_filter, qos)

    def on_session_unsubscribed(self, clientid: str, topic_filter: str, *_more: object) -> None:
        self._subscription("session_unsubscribed", clientid, topic_filter, None)

    def on_message_delivered(self, clientid: str, message: Message, _accumulator: object) -> None:
        self._receipt("message_delivered", clientid, message)

    def on_message_acked(self, clientid: str, message: Message, _accumulator: object) -> None:
        self._receipt("message_acked", clientid, message)

    def on_message_dropped(self, message: Message, reason: str, _accumulator: object) -> None:
        if message.clientid != SYSTEM_CLIENTID and self._outgoing.wants("$events/message_dropped"):
            fields = self._message_fields(message)
            fields.update(self._receiver_fields(message.clientid))
            fields["username"] = message.username
            fields["reason"] = reason
            self._put("message_dropped", fields)

    def on_delivery_dropped(self, clientid: str, message: Message, reason: str, _accumulator: object) -> None:
        self._receipt("delivery_dropped", clientid, message, reason)

    def _subscription(self, event: str, clientid: str, topic_filter: str, qos: int | None) -> None:
        if self._outgoing.wants(PREFIX + event):
            client = self._find_client(clientid)
            fields = client_events.subscribed(clientid, client, topic_filter, qos, self._now_ms())
            if client is not None:
                fields.update(peerhost=client.peerhost, peername=client.peername)
            if qos is not None:
                fields["qos"] = qos
            self._put(event, fields)

    def _receipt(self, event: str, clientid: str, message: Message, reason: str | None = None) -> None:
        if message.clientid != SYSTEM_CLIENTID and self._outgoing.wants(PREFIX + event):
            fields = self._message_fields(message)
            fields.update(self._receiver_fields(clientid))
            fields["from_clientid"] = message.clientid
            fields["from_username"] = message.username
            if reason is not None:
                fields["reason"] = reason
            self._put(event, fields)

    def _receiver_fields(self, clientid: str) -> dict[str, object]:
        client = self._find_client(clientid)
        return {
            "clientid": clientid,
            "username": None if client is None else client.username,
            "peerhost": None if client is None else client.peerhost,
            "peername": None if client is None else client.peername,
        }

    def _message_fields(self, message: Message) -> dict[str, object]:
        fields: dict[str, object] = {
            "id": message.guid.hex().upper(),
            "topic": message.topic,
            "qos": message.qos,
            "flags": {"retain": message.retain, "dup": False},
            "pub_props": {},
            "publish_received_at": message.received_at // 1000,
            "timestamp": self._now_ms(),
        }
        if message.property_bytes:
            decoded = props.properties_from_wire(message.property_bytes, props.ALLOWED_PUBLISH)
            fields["pub_props"] = _shown(decoded.named())
        try:
            fields["payload"] = message.payload.decode("utf-8")
        except UnicodeDecodeError:
            fields["payload"] = b64encode(message.payload).decode("ascii")
            fields["payload_encoding"] = "base64"
        return fields

    def _now_ms(self) -> int:
        return self._now_us() // 1000

    def _put(self, event: str, fields: dict[str, object]) -> None:
        self._outgoing.put(PREFIX + event, orjson.dumps(fields))


def _addresses(client: ClientInfo) -> dict[str, object]:
    return {"peername": client.peername, "sockname": client.sockname}


def _shown(named: dict[str, object]) -> dict[str, object]:
    """Properties as JSON can hold them: bytes as base64, user properties as an object and, in order, as pairs."""
    shown: dict[str, object] = {}
    for name, value in named.items():
        if name == "Authentication-Data":
            continue  # it may be a secret
        if isinstance(value, bytes):
            shown[name] = b64encode(value).decode("ascii")
        elif name == "User-Property" and isinstance(value, list):
            shown[name] = dict(value)
            shown["User-Property-Pairs"] = [{"key": key, "value": text} for key, text in value]
        else:
            shown[name] = value
    return shown
