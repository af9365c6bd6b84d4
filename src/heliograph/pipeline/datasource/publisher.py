"""One MQTT connection that publishes many messages: a window of them under way, every one acknowledged.

The data source's writer and the sink `mqtt` publish by it, each task of Spark over a connection of its own.
"""

import base64
import select
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from heliograph.client.conversation import ClientConversation
from heliograph.client.errors import DeniedError, reason_text
from heliograph.client.stream import SocketStream
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties, encode_properties, properties_from_wire
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, has_wildcard, topic_name_fault
from heliograph.outbound import Outbound, OutboundDeniedError
from heliograph.pipeline.datasource.sink_options import V3, V4, V5, SinkOptions
from heliograph.pipeline.errors import OptionError, PublishError
from heliograph.pipeline.tls import tls_context
from heliograph.processes.backoff import Backoff

# Properties as stored messages carry them.
_PROPERTIES: Final[Mapping[str, int]] = {
    props.NAMES[identifier]: identifier
    for identifier in (
        props.CONTENT_TYPE,
        props.CORRELATION_DATA,
        props.MESSAGE_EXPIRY_INTERVAL,
        props.PAYLOAD_FORMAT_INDICATOR,
        props.RESPONSE_TOPIC,
    )
}
_LARGEST: Final = {props.MESSAGE_EXPIRY_INTERVAL: 0xFFFF_FFFF, props.PAYLOAD_FORMAT_INDICATOR: 1}
_USER_PROPERTY: Final = "User-Property."

_VERSIONS: Final = {V3: p.V3_1, V4: p.V3_1_1, V5: p.V5}

# Reasons for which a broker will never take a message: its own, a topic, a size, a payload's form.
_MESSAGE_REASONS: Final = frozenset({0x83, 0x90, 0x95, 0x99})
_NOT_AUTHORIZED: Final = 0x87

# The broker keeps the session for so long, so that what is under way goes on after a connection was lost.
_SESSION_EXPIRY_S: Final = 60
_BACKOFF: Final = Backoff(first_s=0.2, longest_s=5.0)
_LOST: Final = (OSError, ProtocolError, DeniedError)  # with the last, a second CONNACK that refuses
_LOOK_S: Final = 60.0
_PAUSE_MIN_S: Final = 0.05
_UNSENT_MAX: Final = 64 * 1024
_PACKET_MAX: Final = 64 * 1024  # of the broker's, who has only answers for a publisher
_NO_PROPERTIES: Final = Properties()


def property_fault(name: str) -> str | None:
    """Why a name is no property that a message can have, or None if it is."""
    if name in _PROPERTIES or (name.startswith(_USER_PROPERTY) and name != _USER_PROPERTY):
        return None
    return f"one of {', '.join(_PROPERTIES)} or {_USER_PROPERTY}<name>"


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
        reconnects: How often the connection was lost.
        pings: How often the broker was asked whether it is there.
    """

    def __init__(self, options: SinkOptions, *, keep_refused: bool = False) -> None:
        self.refused: dict[int, str] = {}
        self.reconnects = 0
        self.pings = 0
        self.payload_bytes = 0
        self.count = 0
        self._options = options
        self._clientid = f"{options.clientid}-{uuid.uuid4().hex[:12]}"
        self._dialer = Outbound(options.outbound).dialer(options.declared_at)
        self._tls = None if options.tls is None else tls_context(options.tls, PublishError)
        self._keep_refused = keep_refused
        self._of_messages = _MESSAGE_REASONS | ({_NOT_AUTHORIZED} if options.has_topic_of_row else set())
        self._numbers: dict[int, int] = {}  # which message a packet identifier stands for
        self._acknowledged = 0
        self._unsent = 0
        self._fault: str | None = None  # a refusal that ends it; the thread below may have been the one to read it
        self._failures = 0  # of attempts to connect again, in a row
        self._why_lost = ""
        self._conversation: ClientConversation | None = None
        self._stream: SocketStream | None = None
        self._ready = select.poll()
        self._sent_at = 0.0
        self._keepalive_s = float(options.keepalive_s)
        # A thread of its own keeps the connection alive while nothing is published; what is above is under the lock.
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._keeper = threading.Thread(target=self._keep_alive, daemon=True, name="mqtt keep-alive")

    def __repr__(self) -> str:
        return f"MqttPublisher({self._where()}, {len(self._numbers)} of {self.count} under way)"

    def __enter__(self) -> Self:
        with self._lock:
            self._connect()
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        with self._lock:
            if self._stream is not None and self._conversation is not None:
                self._conversation.take()  # what was not sent is given up
                self._conversation.disconnect(rc.SUCCESS, self._session_expiry(0))
                with suppress(OSError):  # it was lost already
                    self._send(self._stream, self._conversation)
            self._close()
        self._keeper.join()

    def publish(self, row: Mapping[str, Any]) -> None:
        """Publish one row; blocks while the window is full."""
        with self._lock:
            if not self._unsent:
                self._look()  # at QoS 0 no answer says later that the connection was closed
            if len(self._numbers) >= self._options.window or self._unsent >= _UNSENT_MAX or self._stream is None:
                self._wait(self._has_room)
            number = self.count
            self.count += 1
            try:
                properties = _NO_PROPERTIES
                if row.get("properties") and self._options.protocol == V5:
                    properties = make_properties(row["properties"])
                fault = _fault_of(row)
            except OptionError as error:
                if not self._keep_refused:
                    raise
                fault = str(error)
            if fault is None:
                fault = self._put(row, properties, number)
            if fault is not None:
                self._refuse(number, fault)

    def flush(self) -> None:
        """Wait until everything published was acknowledged."""
        with self._lock:
            self._wait(lambda: not self._numbers and not self._unsent)
            self._failures = 0

    def _put(self, row: Mapping[str, Any], properties: Properties, number: int) -> str | None:
        """Publish a message; why the broker does not take such ones, or None."""
        conversation = self._conversation
        assert conversation is not None
        payload = row["payload"] or b""
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        qos = self._options.qos if row.get("qos") is None else row["qos"]
        try:
            packet_id = conversation.publish(row["topic"], data, qos, bool(row.get("retain")), properties)
        except (DeniedError, ValueError) as error:
            return f"{self._where()}: {error}"
        self.payload_bytes += len(data)
        self._unsent += len(row["topic"]) + len(data)
        if packet_id:
            self._numbers[packet_id] = number
        return None

    def _has_room(self) -> bool:
        return self._stream is not None and len(self._numbers) < self._options.window and self._unsent < _UNSENT_MAX

    def _refuse(self, number: int, reason: str) -> None:
        if not self._keep_refused:
            raise PublishError(reason)
        self.refused[number] = reason

    def _wait(self, is_done: Callable[[], bool]) -> None:
        timeout_s = self._options.ack_timeout_s
        end, reconnects = time.monotonic() + timeout_s, self.reconnects
        while self._fault is None and not is_done():
            acknowledged = self._acknowledged
            left_s = end - time.monotonic()
            if left_s <= 0:
                lost = self.reconnects - reconnects
                hint = f", and the connection was lost {lost} times: {self._why_lost}" if lost else ""
                raise PublishError(f"{self._where()} acknowledged nothing for {timeout_s:.0f} s{hint}")
            try:
                self._go_on(left_s, is_done)
            except _LOST as error:
                self._lose(error)
            if acknowledged != self._acknowledged:  # a connection that is made again is nothing that came on
                end = time.monotonic() + timeout_s
        if self._fault is not None:
            raise PublishError(f"{self._where()} {self._fault}")

    def _go_on(self, left_s: float, is_done: Callable[[], bool]) -> None:
        """Send, and take what comes, for so long at most. Raises `OSError` or `ProtocolError`: the connection ended."""
        if self._stream is None:
            self._connect_again(left_s)
            return
        assert self._conversation is not None
        self._send(self._stream, self._conversation)
        if not is_done():
            self._receive(self._stream, self._conversation, min(left_s, self._silence_s()))
            self._ping_after_silence(self._stream, self._conversation)

    def _connect_again(self, left_s: float) -> None:
        if self._failures > 1:  # a broker that accepts and closes again is not to be asked without a pause
            time.sleep(min(left_s, _BACKOFF.pause_s(self._failures - 1)))  # a task of Spark has a thread of its own
        try:
            self._open(min(left_s, self._options.connect_timeout_s), self._conversation)
        except DeniedError as error:
            raise PublishError(f"{self._where()} {_refusal(error)}") from error
        except (OSError, ProtocolError) as error:
            self._failures += 1
            self._why_lost = str(error)

    def _connect(self) -> None:
        options = self._options
        for attempt in range(1, options.connect_attempts + 1):
            try:
                self._open(options.connect_timeout_s, None)
            except DeniedError as error:
                raise PublishError(f"{self._where()} {_refusal(error)}") from error
            except ProtocolError as error:
                raise PublishError(f"{self._where()} breaks the protocol: {error}") from error
            except OSError as error:
                is_final = isinstance(error, ssl.SSLCertVerificationError | OutboundDeniedError | _SilentError)
                if is_final or attempt == options.connect_attempts:
                    what = str(error) if isinstance(error, _SilentError) else f"cannot be reached: {error}"
                    raise PublishError(f"{self._where()} {what}") from error
                time.sleep(_BACKOFF.pause_s(attempt))  # a task of Spark has a thread of its own
            else:
                return

    def _open(self, timeout_s: float, before: ClientConversation | None) -> None:
        """Connect, and wait for the CONNACK. Raises `OSError`, `ProtocolError` or `DeniedError`."""
        options = self._options
        opened = self._dialer.connect(options.host, options.port, timeout_s)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                opened = self._tls.wrap_socket(opened, server_hostname=options.host)
            stream, conversation = (
                SocketStream(opened),
                ClientConversation(self._make_connect(before is None), None, None, _PACKET_MAX, before),
            )
            self._ready = select.poll()
            self._ready.register(stream.fileno(), select.POLLIN)
            self._send(stream, conversation)
            end = time.monotonic() + timeout_s
            while conversation.connack is None:
                if (left_s := end - time.monotonic()) <= 0:
                    raise _SilentError(f"did not accept the connection for {timeout_s:g} s")
                self._receive(stream, conversation, left_s)
        except BaseException:
            opened.close()
            raise
        opened.settimeout(options.ack_timeout_s)
        granted_s = conversation.connack.properties.number(props.SERVER_KEEP_ALIVE, options.keepalive_s)
        self._stream, self._conversation, self._keepalive_s = stream, conversation, float(granted_s)

    def _make_connect(self, is_new: bool) -> p.Connect:
        options = self._options
        password = None if options.password is None else options.password.encode()
        version = _VERSIONS[options.protocol]
        return p.Connect(
            version, self._clientid, is_new or version != p.V5, options.keepalive_s, None, options.username, password,
            self._session_expiry(_SESSION_EXPIRY_S), is_bridge=options.is_bridge and version != p.V5,
        )  # fmt: skip

    def _send(self, stream: SocketStream, conversation: ClientConversation) -> None:
        if data := conversation.take():
            for begin in range(0, len(data), _UNSENT_MAX):  # each with the whole timeout
                stream.send(data[begin : begin + _UNSENT_MAX])
            self._sent_at = time.monotonic()
        self._unsent = 0

    def _receive(self, stream: SocketStream, conversation: ClientConversation, patience_s: float) -> None:
        if not self._ready.poll(patience_s * 1000):
            return
        data = stream.receive()
        if data is None:
            raise ConnectionResetError("the connection was closed by the other side")
        try:
            conversation.receive(data)
        finally:
            conversation.messages.clear()
            self._take_answers(conversation)
        if (farewell := conversation.farewell) is not None:
            reason = reason_text(farewell.code, farewell.properties, p.V5)
            raise ConnectionResetError(f"the broker ended the connection: {reason}")

    def _take_answers(self, conversation: ClientConversation) -> None:
        while conversation.answers:
            answer = conversation.answers.popleft()
            self._acknowledged += 1
            self._failures = 0
            number, code = self._numbers.pop(answer.packet_id), answer.codes[0]
            # A broker that completed a message of QoS 2, whose PUBCOMP was lost, does not know it any more.
            if code >= rc.UNSPECIFIED_ERROR and code != rc.PACKET_IDENTIFIER_NOT_FOUND:
                self._take_refusal(number, code, reason_text(code, answer.properties, p.V5))

    def _take_refusal(self, number: int, code: int, reason: str) -> None:
        if self._keep_refused and code in self._of_messages:
            self.refused[number] = f"{self._where()} refused it: {reason}"
        else:
            self._fault = f"refused a message: {reason}"

    def _silence_s(self) -> float:
        """How long nothing is to be sent until the broker is asked whether it is there."""
        if not self._keepalive_s:
            return float("inf")
        return max(0.0, self._sent_at + self._keepalive_s / 2 - time.monotonic())

    def _ping_after_silence(self, stream: SocketStream, conversation: ClientConversation) -> None:
        if self._silence_s() > 0:
            return
        if conversation.pings_unanswered > 1:
            raise ConnectionResetError("the broker does not answer PINGREQ")
        self.pings += 1
        conversation.ping()
        self._send(stream, conversation)

    def _keep_alive(self) -> None:
        pause_s = self._keepalive_s / 2
        while not self._is_over.wait(pause_s):
            pause_s = self._keepalive_s / 2 or _LOOK_S  # a broker may grant no keep-alive
            with self._lock:
                self._look()
                if self._stream is not None:  # otherwise it is made again when there is something to publish
                    pause_s = min(pause_s, max(self._silence_s(), _PAUSE_MIN_S))

    def _look(self) -> None:
        """Take what has come, and keep the connection alive."""
        if self._stream is None or self._conversation is None:
            return
        try:
            self._receive(self._stream, self._conversation, 0.0)
            self._ping_after_silence(self._stream, self._conversation)
        except _LOST as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        if self._stream is not None:
            self.reconnects += 1
            self._failures += 1
            self._why_lost = str(error)
        self._close()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _session_expiry(self, seconds: int) -> Properties:
        properties = Properties()
        if self._options.protocol == V5:
            properties.numbers[props.SESSION_EXPIRY_INTERVAL] = seconds
        return properties

    def _where(self) -> str:
        return f"the MQTT broker at {self._options.host}:{self._options.port}"


class _SilentError(OSError):
    """A broker that answers no CONNECT; to try again would take as long."""


def _refusal(error: DeniedError) -> str:
    return str(error).replace("the broker refused", "refused", 1)


def _fault_of(row: Mapping[str, Any]) -> str | None:
    """Why a row can never be published; a broker would close the connection for it, again and again."""
    topic: str = row["topic"] if row["topic"] is not None else ""
    fault = topic_name_fault(topic, MAX_TOPIC_BYTES)
    if fault is not None:
        return f"topic {topic!r} cannot be published to: {fault}"
    if (name_bytes := len(topic.encode("utf-8", "replace"))) > MAX_TOPIC_BYTES:
        return f"the topic name has {name_bytes} bytes; at most {MAX_TOPIC_BYTES} are allowed"
    if row.get("qos") is not None and row["qos"] not in (0, 1, 2):
        return f"qos is {row['qos']}, but must be 0, 1 or 2"
    if isinstance(row.get("retain"), str):
        return f"retain is {row['retain']}, but must be true or false"
    return None


def make_properties(row: list[tuple[str, str]] | Mapping[str, str]) -> Properties:
    """The MQTT properties of a message, of the texts that a row has by their names."""
    made = Properties()
    for name, value in dict(row).items():  # Arrow gives a map as a list of pairs
        if (valid := property_fault(name)) is not None:
            raise OptionError("properties", name, valid)
        try:
            _set(made, name, value)
        except ValueError as error:
            raise OptionError(f"properties.{name}", value, f"a value that MQTT allows ({error})") from error
    try:
        properties_from_wire(encode_properties(made), props.ALLOWED_PUBLISH)
    except (ProtocolError, ValueError) as error:
        raise OptionError("properties", str(dict(row)), f"what MQTT allows ({error})") from error
    return made


def _set(properties: Properties, name: str, value: str) -> None:
    """Raises `ValueError` for a value that MQTT does not allow."""
    if name.startswith(_USER_PROPERTY):
        properties.user.append((name.removeprefix(_USER_PROPERTY), value))
    elif (identifier := _PROPERTIES[name]) in _LARGEST:
        if not 0 <= (number := int(value)) <= _LARGEST[identifier]:
            raise ValueError(f"a number from 0 to {_LARGEST[identifier]}")
        properties.numbers[identifier] = number
    elif identifier == props.CORRELATION_DATA:
        properties.binaries[identifier] = base64.b64decode(value)
    else:
        properties.strings[identifier] = value
        if identifier == props.RESPONSE_TOPIC and has_wildcard(value):  # [MQTT-3.3.2-14]
            raise ValueError("a topic name has no wildcard")
