"""The type `kafka_consumer`: a topic of Kafka, read as a member of a consumer group by librdkafka.

An offset is stored for the group's next commit when the node has answered for its message, in order, so what a group
has committed is here. librdkafka's client blocks: each session has a thread, which alone calls what may wait.
"""

import asyncio
import base64
import contextlib
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from heliograph.control.proto_v1.sources import SourceMessage
from heliograph.outbound import OutboundDeniedError
from heliograph.outbound.kafka import login_settings
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address
from heliograph.sources.inlet import Incoming, mark_of
from heliograph.sources.interface import LoginSettings, MessageSource, SourceEnvironment, SourceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_Result = TypeVar("_Result")

_MESSAGES: Final = 64  # that one call takes
_POLL_S: Final = 0.5
_HELD_S: Final = 1.0  # how long a full inlet may take before partitions are paused
_GIVE_UP_S: Final = 5.0  # for what is under way when another member gets its partition
_SESSION_S: Final = 10.0  # after which the group does without a member that is gone, as in EMQX
_QUEUE_KIB: Final = 4096
_FETCH_BYTES: Final = 1024 * 1024
_TIME_TYPES: Final = {0: "undefined", 1: "create", 2: "append"}
_BASE64: Final = "base64"
_LATEST: Final = "latest"

# What the client would log is in its errors.
_SILENT: Final = logging.Logger("librdkafka", logging.CRITICAL)


class KafkaSettings(LoginSettings, frozen=True, kw_only=True):
    """What the node says of one; times are seconds.

    Attributes:
        servers: Host and port of brokers from which the others are learned.
    """

    servers: list[tuple[str, int]]
    topic: str
    group: str
    reset: str
    key_encoding: str
    value_encoding: str
    fetch_bytes: int
    fetch_wait: float
    commit_interval: float
    mechanism: str


class KafkaSubscription(MessageSource):
    """One membership of a group."""

    def __init__(self, settings: dict[str, Any], around: SourceEnvironment) -> None:
        super().__init__(settings, around)
        self._settings = msgspec.convert(settings, KafkaSettings)
        self._thread: ThreadPoolExecutor | None = None
        self._consumer: Consumer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_error = ""
        self._fault = ""
        self._is_paused = False
        self._waiting: deque[Message] = deque()
        self._unanswered = 0
        self._all_answered = threading.Event()

    @property
    def server(self) -> str:
        return ",".join(str(Address(host, port)) for host, port in self._settings.servers)

    async def session(self) -> None:
        try:
            await self._open()
            assert self._consumer is not None
            self._loop = asyncio.get_running_loop()
            await self._call(
                functools.partial(
                    self._consumer.subscribe,
                    [self._settings.topic],
                    on_assign=self._on_assign,
                    on_revoke=self._on_revoke,
                )
            )
            while True:
                self._waiting.extend(await self._call(functools.partial(self._consume, _POLL_S)))
                await self._put_waiting()
        finally:
            await self._close()

    async def check(self) -> None:
        try:
            await self._open()
        finally:
            await self._close()

    # --- in the event loop

    async def _call(self, function: Callable[[], _Result]) -> _Result:
        """The result of what may block."""
        from confluent_kafka import KafkaException

        assert self._thread is not None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except KafkaException as error:
            raise SourceError(self._text(error.args[0].str())) from None

    async def _open(self) -> None:
        """Make a client, and see that the brokers may be connected to and have the topic."""
        one = self._settings
        self._last_error = self._fault = ""
        self._unanswered, self._is_paused = 0, False
        self._all_answered.set()
        self._waiting.clear()
        await self._check_servers(one.servers)
        self._thread = ThreadPoolExecutor(1, "kafka")
        self._consumer = await self._call(self._made)
        brokers, has_topic = await self._call(self._metadata)
        await self._check_servers(brokers)
        if not has_topic:
            raise SourceError(f"{self.server} has no topic {one.topic}, or does not let this user see it")

    async def _check_servers(self, servers: Sequence[tuple[str, int]]) -> None:
        """librdkafka resolves names and connects by itself; what cannot be resolved is left to it."""
        dialer = self.around.dialer
        for host, port in servers:
            try:
                await dialer.resolve(host, port)
            except OutboundDeniedError as error:
                raise SourceError(f"cannot connect to {self.server}: {error}") from None
            except OSError:
                continue

    async def _put_waiting(self) -> None:
        """Put what has come into the inlet; while that is full, stay a member of the group that fetches nothing."""
        if not self._waiting:
            return
        putting = asyncio.create_task(self._put_all())
        try:
            while not (await asyncio.wait({putting}, timeout=_HELD_S))[0]:
                await self._call(self._pause)
                self._waiting.extend(await self._call(functools.partial(self._consume, 0.0)))
            await putting
        finally:
            putting.cancel()
        if self._is_paused:
            await self._call(self._resume)

    async def _put_all(self) -> None:
        while self._waiting:
            message = self._waiting.popleft()
            self._unanswered += 1
            self._all_answered.clear()
            done = functools.partial(self._on_done, self._consumer, message.partition() or 0, message.offset() or 0)
            await self.around.inlet.put(Incoming(self._message_of(message), done))

    def _on_done(self, consumer: "Consumer | None", partition: int, offset: int) -> None:
        if consumer is None or consumer is not self._consumer:
            return  # of a session that is over: it comes again
        from confluent_kafka import KafkaException, TopicPartition

        self._unanswered -= 1
        if not self._unanswered:
            self._all_answered.set()
        with contextlib.suppress(KafkaException):  # another member has the partition since, to which it comes again
            consumer.store_offsets(offsets=[TopicPartition(self._settings.topic, partition, offset + 1)])

    async def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        thread, self._thread = self._thread, None
        self._all_answered.set()  # nothing is waited for any more
        if thread is not None:
            if consumer is not None:
                await asyncio.get_running_loop().run_in_executor(thread, consumer.close)
            thread.shutdown(wait=False)

    # --- in the thread

    def _made(self) -> "Consumer":
        try:
            from confluent_kafka import Consumer
        except ImportError:
            raise SourceError("Kafka needs confluent-kafka: pip install 'heliograph[sinks]'") from None
        one = self._settings
        tls = None if one.tls is None else ClientTls(**one.tls)
        return Consumer(
            {
                "bootstrap.servers": self.server,
                "group.id": one.group,
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": max(1, round(one.commit_interval * 1000)),
                "auto.offset.reset": one.reset,
                "session.timeout.ms": round(_SESSION_S * 1000),
                "fetch.wait.max.ms": max(1, round(one.fetch_wait * 1000)),
                "fetch.message.max.bytes": one.fetch_bytes,
                "fetch.max.bytes": max(_FETCH_BYTES, one.fetch_bytes),
                "queued.max.messages.kbytes": _QUEUE_KIB + one.fetch_bytes // 1024,
                "socket.connection.setup.timeout.ms": max(1000, round(one.timeout * 1000)),
                **login_settings(one.mechanism, one.username, one.password, tls),
                "error_cb": self._on_error,
            },
            logger=_SILENT,
        )

    def _metadata(self) -> tuple[list[tuple[str, int]], bool]:
        """The brokers, and whether there is the topic; of all topics, since one that is asked for might be created."""
        assert self._consumer is not None
        from confluent_kafka import KafkaException

        try:
            found = self._consumer.list_topics(timeout=self._settings.timeout)
        except KafkaException:
            self._consumer.poll(0)  # which says why
            raise
        return [(one.host, one.port) for one in found.brokers.values()], self._settings.topic in found.topics

    def _consume(self, wait_s: float) -> "list[Message]":
        assert self._consumer is not None
        found = self._consumer.consume(_MESSAGES, wait_s)
        if self._fault:
            raise SourceError(self._text(self._fault))
        for message in found:
            error = message.error()
            if error is not None:
                raise SourceError(self._text(error.str()))
        return found

    def _pause(self) -> None:
        assert self._consumer is not None
        self._is_paused = True
        self._consumer.pause(self._consumer.assignment())

    def _resume(self) -> None:
        assert self._consumer is not None
        self._is_paused = False
        self._consumer.resume(self._consumer.assignment())

    def _on_assign(self, consumer: "Consumer", partitions: "list[TopicPartition]") -> None:
        """Begin where the group is. Where it begins itself is committed now, so that nothing is skipped later."""
        placed = consumer.committed(partitions, timeout=_SESSION_S) if partitions else []
        fresh = [one for one in placed if one.offset < 0]
        for one in fresh:
            low, high = consumer.get_watermark_offsets(one, timeout=_SESSION_S)
            one.offset = high if self._settings.reset == _LATEST else low
        if fresh:
            consumer.commit(offsets=fresh, asynchronous=False)
        consumer.assign(placed)
        if self._is_paused:
            consumer.pause(placed)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.around.is_connected)

    def _on_revoke(self, consumer: "Consumer", partitions: "list[TopicPartition]") -> None:
        """Wait a little for what is under way, so that the next member does not get it too; the client commits then."""
        self._all_answered.wait(_GIVE_UP_S)

    def _on_error(self, error: "KafkaError") -> None:
        from confluent_kafka import KafkaError

        lasting = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN)
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error.str()
        if error.fatal() or error.code() in lasting:
            self._fault = error.str()

    # --- both

    def _text(self, problem: str) -> str:
        more = f" ({self._last_error})" if self._last_error and self._last_error != problem else ""
        return f"{self.server}: {problem}{more}"

    def _message_of(self, message: "Message") -> SourceMessage:
        one = self._settings
        time_type, time_ms = message.timestamp()
        headers = {name: value or b"" for name, value in dict(message.headers() or ()).items()}
        return SourceMessage(
            message.topic() or one.topic,
            _encoded(message.value(), one.value_encoding),
            1,
            received_at_ms=time.time_ns() // 1_000_000,
            headers=mark_of(headers),
            columns={
                "key": _encoded(message.key(), one.key_encoding),
                "offset": message.offset(),
                "ts": time_ms,
                "ts_type": _TIME_TYPES.get(time_type, "undefined"),
                "headers": headers,
            },
        )

    def __repr__(self) -> str:
        return f"KafkaSubscription({self.around.source_id}, {self._settings.topic})"


def _encoded(data: str | bytes | None, encoding: str) -> bytes:
    found = data.encode() if isinstance(data, str) else data or b""
    return base64.b64encode(found) if encoding == _BASE64 else found
