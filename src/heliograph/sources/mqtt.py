"""The type `mqtt`: a subscription at another broker, whose session is kept there while we are away.

A message is acknowledged after the node's commit: with PUBACK at QoS 1, with PUBREC at QoS 2, since a broker forgets a
message when PUBREC has come. A library that sends PUBREC at once would lose it with the process, so this goes by
`heliograph.client`.
"""

import asyncio
import contextlib
import logging
import ssl
import time
from functools import partial
from typing import Any, Final

import msgspec

from heliograph.client.conversation import ClientConversation, ReceivedMessage
from heliograph.client.errors import DeniedError
from heliograph.control.proto_v1.sources import SourceMessage
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties, encode_properties
from heliograph.sources.inlet import MESSAGE_BYTES_MAX, Incoming
from heliograph.sources.interface import MessageSource, ServerSettings, SourceEnvironment, SourceError
from heliograph.sources.sessions import KeptSubscriptions

_log = logging.getLogger("heliograph.sources")

_READ_BYTES: Final = 65_536
_VERSIONS: Final = {"v3": p.V3_1, "v4": p.V3_1_1, "v5": p.V5}
_NEW_ONLY: Final = 1  # retained messages of a subscription that was there before do not come again
_FORWARDED: Final = (
    *(props.PAYLOAD_FORMAT_INDICATOR, props.MESSAGE_EXPIRY_INTERVAL),
    *(props.RESPONSE_TOPIC, props.CONTENT_TYPE, props.CORRELATION_DATA),
)


class MqttSettings(ServerSettings, frozen=True, kw_only=True):
    """What the node says of one; times are seconds."""

    clientid: str
    topic: str
    qos: int
    no_local: bool
    session_expiry: int
    version: str
    keepalive: int
    window: int


class MqttSubscription(MessageSource):
    """One subscription."""

    def __init__(self, settings: dict[str, Any], around: SourceEnvironment) -> None:
        super().__init__(settings, around)
        self._settings = one = msgspec.convert(settings, MqttSettings)
        self._version = _VERSIONS[one.version]
        self._kept = KeptSubscriptions(around.directory)
        self._received_qos2: set[int] = set()
        self._conversation: ClientConversation | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._sent_at = 0.0
        self._is_writing = False  # at the end of this turn
        around.inlet.window = one.window

    @property
    def server(self) -> str:
        return self._settings.server

    async def session(self) -> None:
        one = self._settings
        reader = await self._open()
        try:
            async with asyncio.timeout(one.timeout):
                connack = await self._connack(reader)
            if not connack.session_present:
                self._received_qos2.clear()
                self._kept.forget(one.clientid)
            keepalive_s = connack.properties.number(props.SERVER_KEEP_ALIVE, one.keepalive)
            async with asyncio.TaskGroup() as tasks:
                pinging = tasks.create_task(self._keep_alive(keepalive_s))
                await self._subscribe(reader, connack.session_present)
                self.around.is_connected()
                await self._take(reader)
                pinging.cancel()
        except ExceptionGroup as group:
            raise SourceError("; ".join(map(self._reason, group.exceptions))) from None
        except (TimeoutError, DeniedError, ProtocolError, UnicodeDecodeError) as error:
            raise SourceError(self._reason(error)) from None
        finally:
            await self._close()

    def _reason(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"{self.server} does not answer within {self._settings.timeout:g} s"
        if isinstance(error, ProtocolError | UnicodeDecodeError):
            return f"{self.server} breaks the protocol: {error}"
        return str(error) or type(error).__name__

    async def check(self) -> None:
        await self._visit(subscribes=not self._settings.topic.startswith("$share/"))  # which would take messages

    async def forget(self) -> None:
        """End the session there."""
        await self._visit(subscribes=False)

    async def _visit(self, *, subscribes: bool) -> None:
        """Connect without a session."""
        one = self._settings
        reader = await self._open(clean_start=True, expiry=0)
        try:
            async with asyncio.timeout(one.timeout):
                await self._connack(reader)
            if subscribes:
                await self._subscribe(reader, has_session=False)
            assert self._conversation is not None
            self._conversation.disconnect(rc.SUCCESS, Properties())
            await self._flush()
        except TimeoutError:
            raise SourceError(f"{self.server} does not answer within {one.timeout:g} s") from None
        except (DeniedError, ProtocolError, UnicodeDecodeError) as error:
            raise SourceError(str(error)) from None
        finally:
            self._kept.forget(one.clientid)
            await self._close()

    async def _open(self, clean_start: bool = False, expiry: int | None = None) -> asyncio.StreamReader:
        one = self._settings
        dialer = self.around.dialer
        try:
            tls = await one.tls_context()
            async with asyncio.timeout(one.timeout):
                reader, self._writer = await dialer.open_connection(one.host, one.port, tls)
        except TimeoutError:
            raise SourceError(f"cannot connect to {self.server}: no answer in {one.timeout:g} s") from None
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "") or error.reason or str(error)
            raise SourceError(f"cannot connect to {self.server}: TLS: {why}") from None
        except OSError as error:
            raise SourceError(f"cannot connect to {self.server}: {error.strerror or error}") from None
        connect = self._connect(clean_start, one.session_expiry if expiry is None else expiry)
        # A PUBLISH beyond the bound is not read into memory: its topic is, so that the drop can be counted.
        self._conversation = ClientConversation(connect, None, self._received_qos2, MESSAGE_BYTES_MAX)
        return reader

    def _connect(self, clean_start: bool, expiry_s: int) -> p.Connect:
        one = self._settings
        properties = Properties()
        if self._version == p.V5:
            properties.numbers = {props.SESSION_EXPIRY_INTERVAL: expiry_s, props.RECEIVE_MAXIMUM: one.window}
        password = None if one.password is None else one.password.encode()
        return p.Connect(
            self._version, one.clientid, clean_start, one.keepalive, None, one.username, password, properties
        )

    async def _connack(self, reader: asyncio.StreamReader) -> p.Connack:
        assert self._conversation is not None
        while self._conversation.connack is None:
            await self._receive(reader)
        return self._conversation.connack

    async def _subscribe(self, reader: asyncio.StreamReader, has_session: bool) -> None:
        one, conversation = self._settings, self._conversation
        assert conversation is not None
        wanted = (one.topic, one.qos)
        before = self._kept.find(one.clientid)
        if has_session and before is not None and before[0] != one.topic:
            conversation.unsubscribe([before[0]], Properties())
            await self._answer(reader)
        if has_session and before == wanted and self._version != p.V5:
            return  # brokers of MQTT 3 would send all retained messages again
        entry = p.SubscribeEntry(one.topic, one.qos, one.no_local, self._version == p.V5, 0)
        if self._version == p.V5:
            entry.retain_handling = _NEW_ONLY
        conversation.subscribe([entry], Properties())
        code = await self._answer(reader)
        if code >= rc.UNSPECIFIED_ERROR:
            raise SourceError(f"{self.server} refuses the subscription to {one.topic}: {rc.name_of(code)}")
        self._kept.keep(one.clientid, one.topic, one.qos)

    async def _answer(self, reader: asyncio.StreamReader) -> int:
        """The code of the next answer; messages that come before it are put into the inlet meanwhile."""
        conversation = self._conversation
        assert conversation is not None
        await self._flush()
        loop, left_s = asyncio.get_running_loop(), self._settings.timeout
        while not conversation.answers:
            began = loop.time()
            async with asyncio.timeout(left_s):
                await self._receive(reader)
            left_s -= loop.time() - began
            await self._put_all()  # which may wait for the node: that is no fault of the server
        codes = conversation.answers.popleft().codes
        return codes[0] if codes else rc.SUCCESS  # an UNSUBACK of MQTT 3 has none

    async def _take(self, reader: asyncio.StreamReader) -> None:
        await self._put_all()
        while True:
            await self._receive(reader)
            await self._put_all()

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        conversation = self._conversation
        assert conversation is not None
        await self._flush()
        data = await reader.read(_READ_BYTES)
        if not data:
            raise SourceError(f"{self.server} closed the connection")
        conversation.receive(data)
        if (farewell := conversation.farewell) is not None:
            reason = rc.name_of(farewell.code).replace("_", " ")
            raise SourceError(f"{self.server} ended the connection: {reason}")

    async def _put_all(self) -> None:
        """Put what has come into the inlet, which is slow while the node is: then nothing more is read."""
        conversation = self._conversation
        assert conversation is not None
        put = self.around.inlet.put
        while conversation.messages:
            received = conversation.messages.popleft()
            await put(Incoming(_message_of(received), partial(self._on_done, conversation, received)))

    def _on_done(self, conversation: ClientConversation, received: ReceivedMessage) -> None:
        conversation.acknowledge(received)
        if not self._is_writing:  # all that a batch acknowledges goes out together
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write_later)

    def _write_later(self) -> None:
        self._is_writing = False
        if self._conversation is not None:
            self._write()

    def _write(self) -> None:
        assert self._conversation is not None
        data = self._conversation.take()
        if data and self._writer is not None and not self._writer.is_closing():
            self._sent_at = time.monotonic()
            self._writer.write(data)

    async def _flush(self) -> None:
        self._write()
        if self._writer is not None:
            # A peer that sends and does not read gets nothing read either.
            await self._writer.drain()

    async def _keep_alive(self, keepalive_s: int) -> None:
        while keepalive_s:
            pause_s = max(0.05, self._sent_at + keepalive_s / 2 - time.monotonic())
            await asyncio.sleep(pause_s)  # until nothing was sent for so long
            if time.monotonic() < self._sent_at + keepalive_s / 2:
                continue
            conversation = self._conversation
            assert conversation is not None
            if conversation.pings_unanswered > 1 and not self.around.inlet.is_full:
                raise SourceError(f"{self.server} does not answer PINGREQ")
            conversation.ping()
            self._write()

    async def _close(self) -> None:
        writer, self._writer, self._conversation = self._writer, None, None
        if writer is not None:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _message_of(received: ReceivedMessage) -> SourceMessage:
    packet = received.packet
    now_ms = time.time_ns() // 1_000_000
    if received.bytes_left_out:
        fault = f"packet_too_large: a message of about {received.bytes_left_out} bytes; {MESSAGE_BYTES_MAX} at most"
        return SourceMessage(received.topic, qos=packet.qos, received_at_ms=now_ms, fault=fault)
    return SourceMessage(
        received.topic,
        bytes(packet.payload),
        int(packet.qos),
        bool(packet.retain),
        bool(packet.dup),
        _forwarded(received.properties),
        now_ms,
    )


def _forwarded(came: Properties) -> bytes:
    if not (came.numbers or came.strings or came.binaries or came.user):
        return b""
    kept = Properties()
    kept.numbers = {name: value for name, value in came.numbers.items() if name in _FORWARDED}
    kept.strings = {name: value for name, value in came.strings.items() if name in _FORWARDED}
    kept.binaries = {name: value for name, value in came.binaries.items() if name in _FORWARDED}
    kept.user = came.user
    return encode_properties(kept)
