"""One MQTT connection that publishes many messages: a window of them under way, every one acknowledged.

The data source's writer and the sink `mqtt` publish by it, each task of Spark over a connection of its own.
"""

import base64
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from paho.mqtt import MQTTException
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from heliograph.mqtt.topic import MAX_TOPIC_BYTES, topic_name_fault
from heliograph.outbound import Dialer, Outbound, OutboundDeniedError
from heliograph.pipeline.datasource.sink_options import V3, V4, V5, SinkOptions
from heliograph.pipeline.errors import OptionError, PublishError
from heliograph.pipeline.tls import tls_context
from heliograph.processes.backoff import Backoff

# Properties as stored messages carry them: name, paho's name, and how its value is made of the text.
_PROPERTIES: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "Content-Type": ("ContentType", str),
    "Correlation-Data": ("CorrelationData", base64.b64decode),
    "Message-Expiry-Interval": ("MessageExpiryInterval", int),
    "Payload-Format-Indicator": ("PayloadFormatIndicator", int),
    "Response-Topic": ("ResponseTopic", str),
}
_USER_PROPERTY: Final = "User-Property."

_VERSIONS: Final = {V3: MQTTProtocolVersion.MQTTv31, V4: MQTTProtocolVersion.MQTTv311, V5: MQTTProtocolVersion.MQTTv5}

# Reasons for which a broker will never take a message: its own, a topic, a size, a payload's form.
_MESSAGE_REASONS: Final = frozenset({0x83, 0x90, 0x95, 0x99})
_NOT_AUTHORIZED: Final = 0x87

# The broker keeps the session for so long, so that what is under way goes on after a connection was lost.
_SESSION_EXPIRY_S: Final = 60
_BACKOFF: Final = Backoff(first_s=0.2, longest_s=5.0)

# More than the fixed header, the lengths and the packet id need.
_PACKET_OVERHEAD_BYTES: Final = 16


def property_fault(name: str) -> str | None:
    """Why a name is no property that a message can have, or None if it is."""
    if name in _PROPERTIES or (name.startswith(_USER_PROPERTY) and name != _USER_PROPERTY):
        return None
    return f"one of {', '.join(_PROPERTIES)} or {_USER_PROPERTY}<name>"


class _DialedClient(paho.Client):
    """A client whose connections a dialer opens, also when it connects again. TLS verifies the name."""

    def __init__(self, dialer: Dialer, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._dialer = dialer

    def _create_socket_connection(self) -> socket.socket:  # which the library has for subclasses
        return self._dialer.connect(self.host, self.port, self.connect_timeout)


class MqttPublisher:
    """One MQTT connection that publishes with a bounded number of messages under way.

    Used in a ``with`` block by one thread. A connection that is lost is made again, and what was not acknowledged is
    sent again. When nothing is acknowledged for `SinkOptions.ack_timeout_s`, or the broker refuses, `PublishError` is
    raised. Only by MQTT 5 a broker says which message it refuses, and messages have properties.

    Args:
        keep_refused: Whether messages that can never be published are kept in `refused` instead of ending it.

    Attributes:
        count: Messages given to `publish`, which are numbered from 0.
        refused: Why one can never be published, by its number.
    """

    def __init__(self, options: SinkOptions, *, keep_refused: bool = False) -> None:
        self.refused: dict[int, str] = {}
        self.reconnects = 0
        self.payload_bytes = 0
        self._options = options
        self._keep_refused = keep_refused
        self._of_messages = _MESSAGE_REASONS | ({_NOT_AUTHORIZED} if options.has_topic_of_row else set())
        self._changed = threading.Condition()
        self.count = 0
        self._window = options.window
        self._under_way = 0
        self._acknowledged = 0
        self._is_connected = False
        self._fault: str | None = None
        self._packet_bytes_max: int | None = None
        # Which message a packet id stands for; an acknowledgement may come before that is known here.
        self._numbers: dict[int, int] = {}
        self._early: dict[int, ReasonCode] = {}
        self._client = self._make_client()

    def _make_client(self) -> paho.Client:
        options = self._options
        client = _DialedClient(
            Outbound(options.outbound).dialer(options.declared_at),
            CallbackAPIVersion.VERSION2,
            client_id=f"{options.clientid}-{uuid.uuid4().hex[:12]}",
            protocol=_VERSIONS[options.protocol],
        )
        if options.is_bridge:
            client.enable_bridge_mode()
        client.max_inflight_messages_set(options.window)
        client.reconnect_delay_set(1, int(_BACKOFF.longest_s))
        if options.username is not None:
            client.username_pw_set(options.username, options.password)
        if options.tls is not None:
            client.tls_set_context(tls_context(options.tls, PublishError))
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        return client

    def __repr__(self) -> str:
        return f"MqttPublisher({self._where()}, {self._under_way} of {self.count} under way)"

    def __enter__(self) -> Self:
        self._connect()
        self._client.loop_start()
        try:
            self._wait(lambda: self._is_connected, self._options.connect_timeout_s, "did not accept the connection")
        except PublishError:
            self._client.loop_stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect(properties=self._session_expiry(PacketTypes.DISCONNECT, 0))
        self._client.loop_stop()

    def publish(self, row: Mapping[str, Any]) -> None:
        """Publish one row; blocks while the window is full."""
        self._wait(lambda: self._under_way < self._window, self._options.ack_timeout_s, "acknowledged nothing")
        number = self.count
        self.count += 1
        try:
            properties = make_properties(row.get("properties")) if self._has_properties else None
            fault = self._fault_of(row, properties)
        except OptionError as error:
            if not self._keep_refused:
                raise
            fault = str(error)
        if fault is not None:
            self._refuse(number, fault)
            return
        with self._changed:
            self._under_way += 1
        qos = self._options.qos if row.get("qos") is None else row["qos"]
        try:
            sent = self._client.publish(row["topic"], row["payload"], qos, bool(row.get("retain")), properties)
        except (ValueError, TypeError) as error:
            with self._changed:
                self._under_way -= 1
            self._refuse(number, f"topic {row['topic']!r} cannot be published to: {error}")
            return
        self.payload_bytes += len(row["payload"] or b"")
        self._expect(sent.mid, number)

    def flush(self) -> None:
        """Wait until everything published was acknowledged."""
        self._wait(lambda: not self._under_way, self._options.ack_timeout_s, "acknowledged nothing")

    def _connect(self) -> None:
        options = self._options
        self._client.connect_timeout = options.connect_timeout_s
        session = self._session_expiry(PacketTypes.CONNECT, _SESSION_EXPIRY_S)
        for attempt in range(1, options.connect_attempts + 1):
            try:
                self._client.connect(options.host, options.port, keepalive=options.keepalive_s, properties=session)
            except OSError as error:
                is_final = isinstance(error, ssl.SSLCertVerificationError | OutboundDeniedError)
                if is_final or attempt == options.connect_attempts:
                    raise PublishError(f"{self._where()} cannot be reached: {error}") from error
                time.sleep(_BACKOFF.pause_s(attempt))  # a task of Spark has a thread of its own
            else:
                return

    def _fault_of(self, row: Mapping[str, Any], properties: Properties | None) -> str | None:
        """Why a row can never be published; a broker would close the connection for it, again and again."""
        topic: str = row["topic"] if row["topic"] is not None else ""
        name_bytes = len(topic.encode("utf-8", "replace"))
        fault = topic_name_fault(topic, MAX_TOPIC_BYTES)
        if fault is not None:
            return f"topic {topic!r} cannot be published to: {fault}"
        if name_bytes > MAX_TOPIC_BYTES:
            return f"the topic name has {name_bytes} bytes; at most {MAX_TOPIC_BYTES} are allowed"
        if row.get("qos") is not None and row["qos"] not in (0, 1, 2):
            return f"qos is {row['qos']}, but must be 0, 1 or 2"
        if isinstance(row.get("retain"), str):
            return f"retain is {row['retain']}, but must be true or false"
        if self._packet_bytes_max is not None:
            packed: bytes = properties.pack() if properties is not None else b""  # type: ignore[no-untyped-call]  # paho has no types here
            size = name_bytes + len(row["payload"] or b"") + len(packed) + _PACKET_OVERHEAD_BYTES
            if size > self._packet_bytes_max:
                return f"the packet has about {size} bytes; {self._where()} takes {self._packet_bytes_max} at most"
        return None

    def _refuse(self, number: int, reason: str) -> None:
        if not self._keep_refused:
            raise PublishError(reason)
        self.refused[number] = reason

    def _expect(self, mid: int, number: int) -> None:
        with self._changed:
            if mid in self._early:
                self._take(number, self._early.pop(mid))
            else:
                self._numbers[mid] = number

    def _take(self, number: int, reason: ReasonCode) -> None:
        """Take in what the broker says of a message; the lock is held."""
        if not reason.is_failure:
            return
        if self._keep_refused and reason.value in self._of_messages:
            self.refused[number] = f"{self._where()} refused it: {reason}"
        else:
            self._fault = f"refused a message: {reason}"

    def _wait(self, is_done: Callable[[], bool], deadline_s: float, complaint: str) -> None:
        with self._changed:
            acknowledged, end, reconnects = self._acknowledged, time.monotonic() + deadline_s, self.reconnects
            while self._fault is None and not is_done():
                if acknowledged != self._acknowledged:  # a connection that is made again is nothing that came on
                    acknowledged, end = self._acknowledged, time.monotonic() + deadline_s
                left = end - time.monotonic()
                if left <= 0:
                    lost = self.reconnects - reconnects
                    hint = f", and the connection was lost {lost} times" if lost else ""
                    raise PublishError(f"{self._where()} {complaint} for {deadline_s:.0f} s{hint}")
                self._changed.wait(left)
            if self._fault is not None:
                raise PublishError(f"{self._where()} {self._fault}")

    @property
    def _has_properties(self) -> bool:
        return self._options.protocol == V5

    def _session_expiry(self, packet: int, seconds: int) -> Properties | None:
        if not self._has_properties:
            return None
        properties = Properties(packet)  # type: ignore[no-untyped-call]  # paho has no types here
        properties.SessionExpiryInterval = seconds
        return properties

    def _where(self) -> str:
        return f"the MQTT broker at {self._options.host}:{self._options.port}"

    def _on_connect(self, client: object, data: object, flags: object, reason: ReasonCode, properties: Any) -> None:
        with self._changed:
            if reason.is_failure:
                self._fault = f"refused the connection: {reason}"
            self._is_connected = not reason.is_failure
            self._packet_bytes_max = getattr(properties, "MaximumPacketSize", None)
            # paho does not heed it, and a broker ends the connection of a client that sends more.
            at_once = getattr(properties, "ReceiveMaximum", self._options.window)
            self._window = min(self._options.window, at_once)
            self._changed.notify_all()

    def _on_disconnect(self, client: object, data: object, flags: object, reason: ReasonCode, _: object) -> None:
        with self._changed:
            self._is_connected = False
            if reason.is_failure:
                self.reconnects += 1

    def _on_publish(self, client: object, data: object, mid: int, reason: ReasonCode, _: object) -> None:
        with self._changed:
            if mid in self._numbers:
                self._take(self._numbers.pop(mid), reason)
            else:
                self._early[mid] = reason
            self._under_way -= 1
            self._acknowledged += 1
            self._changed.notify_all()


def make_properties(row: list[tuple[str, str]] | Mapping[str, str] | None) -> Properties | None:
    """The MQTT properties of a message, of the texts that a row has by their names."""
    # Arrow gives a map as a list of pairs.
    pairs = dict(row) if row else {}
    if not pairs:
        return None
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no types here
    users = [
        (name.removeprefix(_USER_PROPERTY), pairs.pop(name)) for name in list(pairs) if name.startswith(_USER_PROPERTY)
    ]
    if users:
        properties.UserProperty = users
    for name, value in pairs.items():
        valid = property_fault(name)
        if valid is not None:
            raise OptionError("properties", name, valid)
        attribute, make = _PROPERTIES[name]
        try:
            setattr(properties, attribute, make(value))
        except (ValueError, MQTTException) as error:
            raise OptionError(f"properties.{name}", value, f"a value that MQTT allows ({error})") from error
    return properties
