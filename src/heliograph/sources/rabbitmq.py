"""The type `rabbitmq`: a queue of RabbitMQ, consumed by pika in the event loop of the process.

The broker sends no more than `prefetch_count` messages ahead. One `basic.ack` acknowledges all that the node has of a
batch, since the inlet answers in order. Nothing is given back by `basic.nack` while the node takes nothing: each return
counts against the delivery limit of quorum queues (20 by default), beyond which they drop a message.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from heliograph.control.proto_v1.sources import SourceMessage
from heliograph.mqtt import properties as props
from heliograph.mqtt.properties import Properties, encode_properties
from heliograph.outbound import SocketAddress
from heliograph.outbound.rabbitmq import RabbitmqLogin, parameters_of, rabbitmq_cause, rabbitmq_text
from heliograph.sources.inlet import Incoming, fitting, mark_of
from heliograph.sources.interface import MessageSource, ServerSettings, SourceEnvironment, SourceError

if TYPE_CHECKING:
    from pika import BasicProperties
    from pika.adapters.asyncio_connection import AsyncioConnection
    from pika.channel import Channel
    from pika.spec import Basic

_CLOSE_S: Final = 2.0
_COLUMNS: Final = (
    *("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration"),
    *("message_id", "type", "user_id", "app_id"),
)


class RabbitmqSettings(ServerSettings, frozen=True, kw_only=True):
    """What the node says of one; times are seconds."""

    virtual_host: str
    queue: str
    prefetch: int
    heartbeat: float


class RabbitmqSubscription(MessageSource):
    """One consumer of a queue."""

    def __init__(self, settings: dict[str, Any], around: SourceEnvironment) -> None:
        super().__init__(settings, around)
        self._settings = msgspec.convert(settings, RabbitmqSettings)
        self._connection: AsyncioConnection | None = None
        self._channel: Channel | None = None
        self._over: asyncio.Future[str] | None = None
        self._waiting: deque[Incoming] = deque()
        self._has_come = asyncio.Event()
        self._closed = asyncio.Event()
        self._answered = 0
        self._is_acknowledging = False

    @property
    def server(self) -> str:
        return self._settings.server

    async def session(self) -> None:
        one = self._settings
        try:
            channel = await self._open()
            await self._ask(functools.partial(channel.basic_qos, prefetch_count=one.prefetch))
            consume = functools.partial(channel.basic_consume, one.queue, functools.partial(self._on_message, channel))
            await self._ask(consume)
            self.around.is_connected()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._take())
                await self._lasts()
        except ExceptionGroup as group:
            raise SourceError("; ".join(str(error) or type(error).__name__ for error in group.exceptions)) from None
        finally:
            await self._close()

    async def check(self) -> None:
        try:
            await self._open()
        finally:
            await self._close()

    async def _take(self) -> None:
        while True:
            await self._has_come.wait()
            self._has_come.clear()
            while self._waiting:
                await self.around.inlet.put(self._waiting.popleft())

    # --- the connection

    async def _open(self) -> "Channel":
        """A channel, of a connection to a broker that has the queue."""
        one = self._settings
        try:
            import pika  # noqa: F401 - for a text that says what is missing
        except ImportError:
            raise SourceError("RabbitMQ needs pika: pip install 'heliograph[actions]'") from None
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # what it would log is in our errors
        self._waiting.clear()
        dialer = self.around.dialer
        problem = ""
        try:
            tls = await one.tls_context()
            login = RabbitmqLogin(one.virtual_host, one.heartbeat, one.username, one.password, tls)
            for address in await dialer.resolve(one.host, one.port):
                try:
                    await self._connect(address, login)
                    break
                except SourceError as error:
                    problem = str(error)
                    await self._close()
            else:
                raise SourceError(problem)
        except OSError as error:
            raise SourceError(f"cannot connect to {self.server}: {error.strerror or error}") from None
        connection = self._connection
        assert connection is not None
        channel: Channel = await self._ask(lambda callback: connection.channel(on_open_callback=callback))
        self._channel, self._answered = channel, 0
        channel.add_on_close_callback(self._on_channel_closed)
        channel.add_on_cancel_callback(lambda frame: self._end(f"the queue {one.queue} is gone"))
        await self._ask(functools.partial(channel.queue_declare, one.queue, passive=True))
        return channel

    async def _connect(self, address: SocketAddress, login: RabbitmqLogin) -> None:
        from pika.adapters.asyncio_connection import AsyncioConnection

        one, loop = self._settings, asyncio.get_running_loop()
        self._over = loop.create_future()
        self._closed.clear()
        parameters = parameters_of(address, one.host, login, one.timeout, self.around.source_id)

        def make(callback: Callable[[Any], None]) -> None:
            self._connection = AsyncioConnection(
                parameters,
                on_open_callback=callback,
                on_open_error_callback=self._on_closed,
                on_close_callback=self._on_closed,
                custom_ioloop=loop,
            )

        await self._ask(make)

    async def _ask(self, ask: Callable[..., object]) -> Any:
        """What the broker answers; `ask` sends the request, and is given as `callback` what takes the answer."""
        assert self._over is not None
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def take(found: Any) -> None:
            if not answer.done():
                answer.set_result(found)

        ask(callback=take)
        await asyncio.wait({answer, self._over}, timeout=self._settings.timeout, return_when=asyncio.FIRST_COMPLETED)
        if self._over.done():
            await self._lasts()
        if not answer.done():
            raise SourceError(f"{self.server} does not answer within {self._settings.timeout:g} s")
        return answer.result()

    async def _lasts(self) -> NoReturn:
        """Wait for the end of the session, and raise why it ended."""
        assert self._over is not None
        raise SourceError(f"{self.server}: {await asyncio.shield(self._over)}")

    def _on_closed(self, connection: "AsyncioConnection", error: BaseException) -> None:
        self._closed.set()
        if connection is self._connection:
            self._end(error)

    def _on_channel_closed(self, channel: "Channel", error: BaseException) -> None:
        if channel is self._channel:
            self._end(error)

    def _end(self, reason: BaseException | str) -> None:
        if self._over is not None and not self._over.done():
            text = reason if isinstance(reason, str) else rabbitmq_text(rabbitmq_cause(reason))
            self._over.set_result(text)

    async def _close(self) -> None:
        """End the connection; the queue has again what was not acknowledged."""
        connection, self._connection = self._connection, None
        self._channel = None
        self._waiting.clear()
        if connection is None or connection.is_closed:
            return
        if not connection.is_closing:
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._closed.wait()

    # --- messages

    def _on_message(
        self, channel: "Channel", _: object, method: "Basic.Deliver", properties: "BasicProperties", body: bytes
    ) -> None:
        if channel is self._channel:
            done = functools.partial(self._on_done, channel, method.delivery_tag)
            try:
                incoming = fitting(Incoming(self._message_of(method, properties, body), done))
            except Exception as error:  # noqa: BLE001 - of whatever kind: it would come again and again
                fault = f"malformed: {type(error).__name__}: {error}"
                incoming = Incoming(SourceMessage("", received_at_ms=_now_ms(), fault=fault), done)
            self._waiting.append(incoming)
            self._has_come.set()

    def _on_done(self, channel: "Channel", tag: int) -> None:
        if channel is not self._channel:
            return  # of a session that is over: it comes again
        self._answered = tag
        if not self._is_acknowledging:
            self._is_acknowledging = True
            asyncio.get_running_loop().call_soon(self._acknowledge, channel)

    def _acknowledge(self, channel: "Channel") -> None:
        """Acknowledge all that the node has, of a batch at once."""
        self._is_acknowledging = False
        is_current = channel is self._channel
        if is_current and channel.is_open:
            channel.basic_ack(self._answered, multiple=True)

    def _message_of(self, method: "Basic.Deliver", properties: "BasicProperties", body: bytes) -> SourceMessage:
        found = {name: getattr(properties, name) for name in _COLUMNS}
        headers, kept = properties.headers or {}, Properties()
        if properties.content_type:
            kept.strings[props.CONTENT_TYPE] = _text(properties.content_type)
        routing_key = _text(method.routing_key)
        return SourceMessage(
            routing_key.replace(".", "/"),
            body,
            1,
            dup=method.redelivered,
            properties=encode_properties(kept),
            received_at_ms=_now_ms(),
            headers=mark_of(headers),
            columns={
                "queue": self._settings.queue,
                "exchange": _text(method.exchange),
                "routing_key": routing_key,
                "headers": _plain(headers),
                **{name: value for name, value in found.items() if value is not None},
            },
        )

    def __repr__(self) -> str:
        return f"RabbitmqSubscription({self.around.source_id}, {self._settings.queue})"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _text(value: str | bytes) -> str:
    """A short string; the library gives bytes for one that is not UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _plain(value: Any) -> Any:
    """A value of a table, as rules have values; a time is seconds since the epoch."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime):
        return int(value.timestamp())
    return value if isinstance(value, str | bytes | int | float | None) else str(value)
