"""The type `nats`: a consumer of JetStream, or a subscription of core NATS, by nats-py.

Messages of a stream are pulled, and each is acknowledged when the node has it. One that waits longer in the inlet than
the stream waits for acknowledgements would come again: so the stream hears of each, before that, that it is in work.

What was under way when a session ended comes again after `ack_wait` only, and what is new would come before it. So the
next session waits for so long, where there is such.
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from heliograph.control.proto_v1.sources import SourceMessage
from heliograph.outbound.nats import NatsLogin, close_nats, flush_nats, is_loss, nats_text, open_nats
from heliograph.sources.inlet import WINDOW, WINDOW_BYTES, Incoming, mark_of
from heliograph.sources.interface import MessageSource, ServerSettings, SourceEnvironment, SourceError

try:
    from nats.errors import Error as NatsError
    from nats.errors import SlowConsumerError
except ImportError:
    raise SourceError("NATS needs nats-py: pip install 'heliograph[actions]'") from None

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerInfo

_MESSAGES: Final = 100  # that one request asks a stream for
_PULL_S: Final = 5.0
_LATE_S: Final = 0.5  # beyond the time of an acknowledgement, until messages are there again
_DENIED: Final = "permissions violation"
_ERRORS_MAX: Final = 10


class NatsSettings(ServerSettings, frozen=True, kw_only=True):
    """What the node says of one; times are seconds.

    Attributes:
        is_own: Whether the durable consumer is of this source alone, and ends with it.
    """

    subject: str
    jetstream: bool
    queue_group: str
    stream: str | None
    durable: str
    is_own: bool
    deliver_policy: str
    ack_wait: float
    token: str | None = None


class NatsSubscription(MessageSource):
    """One subscription, or one member of a consumer."""

    def __init__(self, settings: dict[str, Any], around: SourceEnvironment) -> None:
        super().__init__(settings, around)
        self._settings = msgspec.convert(settings, NatsSettings)
        self._client: Client | None = None
        self._lost = asyncio.Event()
        self._errors: list[str] = []
        self._missed = 0
        # Messages that the stream waits for the acknowledgements of, by where these are sent.
        self._in_work: dict[str, Msg] = {}
        self._answered: list[Msg] = []
        self._has_answered = asyncio.Event()

    @property
    def server(self) -> str:
        return self._settings.server

    async def session(self) -> None:
        try:
            with self._translated():
                client = await self._open()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._watch())
                    if self._settings.jetstream:
                        await self._consume(client, tasks)
                    else:
                        await self._subscribe(client, self._on_message)
                        self.around.is_connected()
        finally:
            await self._close()

    async def check(self) -> None:
        try:
            with self._translated():
                client = await self._open()
                if self._settings.jetstream:
                    await self._stream(client.jetstream(timeout=self._settings.timeout))
                else:
                    await self._subscribe(client, _take_nothing)
        finally:
            await self._close()

    async def forget(self) -> None:
        """Delete the consumer, if it is this source's own."""
        one = self._settings
        if not (one.jetstream and one.is_own):
            return
        from nats.js.errors import NotFoundError

        try:
            with self._translated(), contextlib.suppress(NotFoundError):
                stream = (await self._open()).jetstream(timeout=one.timeout)
                await stream.delete_consumer(await self._stream(stream), one.durable)
        finally:
            await self._close()

    # --- core NATS

    async def _subscribe(self, client: "Client", take: Callable[["Msg"], Awaitable[None]]) -> None:
        one = self._settings
        await client.subscribe(
            one.subject,
            # A test is in no group, whose messages it would take.
            queue="" if take is _take_nothing else one.queue_group,
            cb=take,
            pending_msgs_limit=WINDOW,
            pending_bytes_limit=WINDOW_BYTES,
        )
        await flush_nats(client, one.timeout)
        if denied := [text for text in self._errors if _DENIED in text.lower()]:
            raise SourceError(f"{self.server}: {denied[0]}")

    async def _on_message(self, message: "Msg") -> None:
        """Bring a message in; while this waits, nats-py keeps as many as a window has, and drops what comes beyond."""
        await self.around.inlet.put(Incoming(self._message_of(message), _nothing))
        missed, self._missed = self._missed, 0
        if missed:
            text = f"queue_full: {missed} messages came faster than the node took them, or while it took none"
            lost = SourceMessage(_topic(message), received_at_ms=_now_ms(), fault=text, count=missed)
            await self.around.inlet.put(Incoming(lost, _nothing))

    # --- JetStream

    async def _consume(self, client: "Client", tasks: asyncio.TaskGroup) -> None:
        one, stream = self._settings, client.jetstream(timeout=self._settings.timeout)
        name = await self._stream(stream)
        consumer = await self._consumer(stream, name)
        ack_wait = consumer.config.ack_wait or one.ack_wait
        pulling = await stream.pull_subscribe_bind(one.durable, name)
        self.around.is_connected()
        tasks.create_task(self._acknowledge(ack_wait / 3))
        if consumer.num_ack_pending:
            await asyncio.sleep(ack_wait + _LATE_S)  # then it comes before what is new
            await self._put(client, await _left_behind(pulling))
        while True:
            with contextlib.suppress(TimeoutError):  # nats-py's own is one too
                await self._put(client, await pulling.fetch(_MESSAGES, _PULL_S))

    async def _put(self, client: "Client", messages: "list[Msg]") -> None:
        self._in_work.update((message.reply, message) for message in messages)
        for message in messages:
            done = functools.partial(self._on_done, client, message)
            await self.around.inlet.put(Incoming(self._message_of(message), done))

    async def _stream(self, stream: "JetStreamContext") -> str:
        from nats.js.errors import NotFoundError

        one = self._settings
        try:
            if one.stream is not None:
                return (await stream.stream_info(one.stream)).config.name or one.stream
            return await stream.find_stream_name_by_subject(one.subject)
        except NotFoundError:
            wanted = f"the name {one.stream}" if one.stream is not None else f"the subject {one.subject}"
            raise SourceError(f"{self.server} has no stream with {wanted}") from None

    async def _consumer(self, stream: "JetStreamContext", name: str) -> "ConsumerInfo":
        """The durable consumer, which is made if it is not there, and changed if it has other settings."""
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
        from nats.js.errors import NotFoundError

        one = self._settings
        try:
            found: ConsumerInfo = await stream.consumer_info(name, one.durable)
        except NotFoundError:
            config = ConsumerConfig(
                durable_name=one.durable,
                deliver_policy=DeliverPolicy(one.deliver_policy),
                filter_subject=one.subject,
                ack_wait=one.ack_wait,
            )
            return await stream.add_consumer(name, config)
        config = found.config
        if config.deliver_subject or config.ack_policy != AckPolicy.EXPLICIT:
            raise SourceError(
                f"{self.server}: the consumer {one.durable} of the stream {name} is no pull consumer with explicit acks"
            )
        if (config.filter_subject, config.ack_wait) == (one.subject, one.ack_wait):
            return found
        return await stream.add_consumer(name, config.evolve(filter_subject=one.subject, ack_wait=one.ack_wait))

    def _on_done(self, client: "Client", message: "Msg") -> None:
        if client is self._client:  # and not of a session that is over: it comes again
            self._answered.append(message)
            self._has_answered.set()

    async def _acknowledge(self, pause_s: float) -> None:
        """Send what the node has answered, and after each pause that the others are in work."""
        loop = asyncio.get_running_loop()
        due = loop.time() + pause_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._has_answered.wait()
            self._has_answered.clear()
            answered, self._answered = self._answered, []
            for message in answered:
                self._in_work.pop(message.reply, None)
                await message.ack()
            if loop.time() >= due:
                due = loop.time() + pause_s
                for message in [*self._in_work.values()]:
                    await message.in_progress()

    # --- the connection

    async def _open(self) -> "Client":
        one = self._settings
        self._lost.clear()
        self._errors.clear()
        self._in_work.clear()
        self._answered.clear()
        self._missed = 0
        dialer = self.around.dialer
        tls = await one.tls_context()
        login = NatsLogin(one.username, one.password, one.token, tls)
        problem: Exception | None = None
        for address in await dialer.resolve(one.host, one.port):
            try:
                self._client = await open_nats(
                    *(address, one.host, login, one.timeout, self.around.source_id), self._on_error, self._on_lost
                )
            except (OSError, NatsError) as error:
                problem = error
            else:
                self._lost.clear()
                return self._client
        assert problem is not None  # there is one address at least
        raise problem

    async def _watch(self) -> None:
        """Wait for the end of the connection, or of nats-py's reading, which calls nothing when it cannot go on."""
        lost = asyncio.create_task(self._lost.wait())
        reading: Any = self._client and self._client._reading_task
        try:
            await asyncio.wait({lost, reading} if reading else {lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
        raise SourceError("; ".join([f"{self.server}: the connection was lost", *self._errors[-1:]]))

    async def _on_lost(self) -> None:
        self._lost.set()

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, SlowConsumerError):
            self._missed += 1
            return
        self._errors.append(nats_text(error))
        del self._errors[:-_ERRORS_MAX]
        if is_loss(error):
            self._lost.set()

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await close_nats(client)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ExceptionGroup as group:
            raise SourceError("; ".join(map(self._text, group.exceptions))) from None
        except (OSError, NatsError) as error:
            raise SourceError(self._text(error)) from None

    def _text(self, error: Exception) -> str:
        if isinstance(error, SourceError):
            return str(error)
        texts = dict.fromkeys([nats_text(error), *self._errors])
        return f"{self.server}: {'; '.join(filter(None, texts))}"

    # --- messages

    def _message_of(self, message: "Msg") -> SourceMessage:
        headers = message.headers or {}
        columns, mark = {"subject": message.subject, "headers": headers}, mark_of(headers)
        if not self._settings.jetstream:
            return SourceMessage(
                _topic(message),
                message.data,
                received_at_ms=_now_ms(),
                headers=mark,
                columns={**columns, "reply_to": message.reply},
            )
        at = message.metadata
        return SourceMessage(
            _topic(message),
            message.data,
            1,
            dup=at.num_delivered > 1,
            received_at_ms=_now_ms(),
            headers=mark,
            columns={**columns, "stream": at.stream, "sequence": at.sequence.stream},
        )

    def __repr__(self) -> str:
        return f"NatsSubscription({self.around.source_id}, {self._settings.subject})"


async def _left_behind(pulling: "JetStreamContext.PullSubscription") -> "list[Msg]":
    """What was under way when the session before ended: it comes before all else, but in no order of its own."""
    found: list[Msg] = []
    with contextlib.suppress(TimeoutError):
        while not found or found[-1].metadata.num_delivered > 1:
            found += await pulling.fetch(_MESSAGES, _LATE_S)
    return sorted(found, key=lambda message: message.metadata.sequence.stream)


def _topic(message: "Msg") -> str:
    """The subject with the separator of topics, as NATS itself maps the two."""
    return message.subject.replace(".", "/")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _nothing() -> None:
    """Core NATS knows no acknowledgement."""


async def _take_nothing(message: "Msg") -> None:
    """What comes during a test is not taken."""
