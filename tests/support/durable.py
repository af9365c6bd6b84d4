"""A `Kernel` whose durable sessions are the production ones: messages in a real database, session state on a disk that
commits when a test says so, and a crash that leaves what was committed."""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from heliograph.channel.options import ChannelOptions
from heliograph.config.storage import DurableSessionsConfig
from heliograph.durable_sessions.sessions import DurableSessions
from heliograph.mqtt import packets as p
from heliograph.session.options import SessionOptions
from heliograph.storage.errors import StorageError
from heliograph.storage.state.interface import OnStateCommitted, StateBatch, check_preconditions
from support.alarms import unheard_alarms
from support.databases import open_database
from support.kernel import Kernel, Peer


class FakeState:
    """A state database that commits when it is told to, one batch at a time."""

    name = "sessions"
    is_full = False
    commit_times = None

    def __init__(self, durable: dict[bytes, bytes]) -> None:
        self.durable = durable  # what a crash leaves
        self.values = dict(durable)
        self.waiting: list[tuple[int, StateBatch]] = []
        self.batches_count = 0
        self.reads_count = 0
        self.fault: StorageError | None = None  # why it cannot be read
        self._listeners: list[OnStateCommitted] = []
        self._ticket = 0

    def listen(self, on_committed: OnStateCommitted) -> None:
        self._listeners.append(on_committed)

    def submit(self, batch: StateBatch) -> int:
        check_preconditions(self, batch)
        if self.fault is not None and batch.prefixes:  # whose keys are read
            raise self.fault
        self._ticket += 1
        self.batches_count += 1
        self.waiting.append((self._ticket, batch))
        _apply(self.values, batch)
        return self._ticket

    def get(self, key: bytes) -> bytes | None:
        self.reads_count += 1
        if self.fault is not None:
            raise self.fault
        return self.values.get(key)

    def scan(self, prefix: bytes = b"", after: bytes = b"", limit: int = 1024) -> list[tuple[bytes, bytes]]:
        self.reads_count += 1
        if self.fault is not None:
            raise self.fault
        found = sorted(key for key in self.values if key.startswith(prefix) and key > after)
        return [(key, self.values[key]) for key in found[:limit]]

    def statistics(self) -> dict[str, float]:
        return {}

    async def close(self) -> None:
        pass

    def apply_first(self) -> None:
        """The disk has the oldest batch, and nobody is told."""
        _apply(self.durable, self.waiting.pop(0)[1])

    def commit(self, error: StorageError | None = None) -> None:
        ticket, batch = self.waiting.pop(0)
        if error is None:
            _apply(self.durable, batch)
        for listener in self._listeners:
            listener(ticket, error)


class DurableKernel(Kernel):
    """A node with durable sessions, without a loop or clock of its own.

    Args:
        path: Where its messages are; a kernel made there later finds them.
        before: The kernel whose place it takes after a crash.
        stored: The filters of the topics that go to storage.
    """

    def __init__(
        self,
        path: Path,
        before: "DurableKernel | None" = None,
        *,
        channel_options: ChannelOptions | None = None,
        session_options: SessionOptions | None = None,
        stored: tuple[str, ...] = ("#",),
        settings: DurableSessionsConfig | None = None,
        passed_s: float = 0.0,
    ) -> None:
        super().__init__(channel_options, session_options, stored=stored)
        self.path = path
        self.disk: dict[bytes, bytes] = {}
        self.again: Callable[[float], DurableKernel] = lambda seconds: DurableKernel(
            path,
            self,
            channel_options=channel_options,
            session_options=session_options,
            stored=stored,
            settings=settings,
            passed_s=seconds,
        )
        if before is not None:
            self.disk = before.disk
            self.now_us = before.now_us + round(passed_s * 1_000_000)
            self.broker.begin_turn(self.now_us)
            self.sink.open_ticket = 1
        self.automatic = True  # every turn ends with commits
        self.database = open_database(path)
        self.state = FakeState(self.disk)
        self.alarms = unheard_alarms(lambda: self.now_us)
        self.durable = DurableSessions(
            settings or DurableSessionsConfig(),
            stored,
            self.database,
            self.state,
            self.sessions,
            self,
            lambda: self.broker.begin_turn(self.now_us),
            self.options,
            self.alarms,
        )
        self.before_load()
        self.durable.start.load()
        self.run()

    def before_load(self) -> None:
        """What must be there when sessions are read."""

    def call_soon(self, callback: Callable[[], None], /) -> None:
        """As an event loop's."""
        self.defer(callback)

    def crash(self, passed_s: float = 1.0) -> Self:
        """What a start finds after the process was killed, so many seconds later."""
        self.database.close()
        again = self.again(passed_s)
        assert isinstance(again, type(self))
        return again

    def run(self) -> None:
        """Run turns until nothing waits, with commits at the end of each unless a test commits by itself."""
        super().run()
        while getattr(self, "automatic", False) and (self.sink.is_waiting or self.state.waiting):
            if self.sink.is_waiting:
                self.commit()
            while self.state.waiting:
                self.state.commit()
            super().run()

    def commit(self, code: int = 0) -> None:
        """Finish the oldest commit of messages."""
        sink = self.sink
        sink.committed_ticket += 1
        sink.open_ticket = max(sink.open_ticket, sink.committed_ticket + 1)
        batch = [message for ticket, message in sink.messages if ticket == sink.committed_ticket]
        sink.messages = [one for one in sink.messages if one[0] > sink.committed_ticket]
        if code == 0 and batch:
            self.database.write(batch)
        self.durable.head.on_committed(sink.committed_ticket, code != 0)
        self.context.commits.done(sink.committed_ticket, code, not sink.full)
        self.durable.head.on_joined(sink.committed_ticket)
        self.sessions.wills.on_committed(sink.committed_ticket, code != 0, code != 0)
        super().run()

    def commit_state(self) -> None:
        """Finish the oldest commit of session state."""
        self.state.commit()
        super().run()

    def advance(self, seconds: float) -> None:
        """Let time pass, as the node's ticker tells it."""
        super().advance(seconds)
        self.durable.tick(self.now_us)
        self.run()

    def come(
        self,
        clientid: str = "sub",
        *,
        version: int = 5,
        clean_start: bool = False,
        expiry_s: int = 600,
        username: str | None = None,
    ) -> Peer:
        """A client that has sent its CONNECT; what it hears is not read yet."""
        peer = self.peer(version)
        if version == 5:
            peer.connect(clientid, clean_start=clean_start, session_expiry_interval=expiry_s, username=username)
        else:
            peer.connect(clientid, clean_start=clean_start, username=username)
        return peer


def after_a_lost_identifier(path: Path) -> DurableKernel:
    """A node after a crash that stored the QoS 2 message `x` of `pub` to `t`, and not its identifier, 7."""
    kernel = DurableKernel(path)
    pub = kernel.come("pub")
    pub.skip()
    kernel.automatic = False
    pub.publish("t", b"x", 2, 7)
    kernel.commit()
    return kernel.crash()


def _apply(values: dict[bytes, bytes], batch: StateBatch) -> None:
    for prefix in batch.prefixes:
        for key in [key for key in values if key.startswith(prefix)]:
            del values[key]
    for key, value in batch.changes.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value


def leave(kernel: DurableKernel, clientid: str, *filters: str, expiry_s: int = 600) -> None:
    """A client that subscribes at QoS 1 and goes away."""
    sub = kernel.come(clientid, expiry_s=expiry_s)
    sub.skip()
    for topic_filter in filters:
        sub.subscribe(topic_filter, 1)
    sub.drop()


def got(kernel: DurableKernel, clientid: str, *, leaves: bool = False) -> list[str]:
    """What a client hears that comes back; it acknowledges it, and may leave again."""
    peer = kernel.come(clientid)
    payloads = []
    while packets := peer.received():
        for packet in packets:
            if isinstance(packet, p.Publish):
                payloads.append(packet.payload.decode())
                peer.ack(p.PUBACK, packet.packet_id)
    if leaves:
        peer.drop()
    return payloads
