"""A node: builds every part from the configuration, joins them, and starts and stops them in order."""

import asyncio
import fcntl
import gc
import json
import logging
import secrets
import sys
import time
import zlib
from pathlib import Path
from typing import ClassVar, TextIO

from heliograph import __version__
from heliograph.broker import hooks
from heliograph.broker.hooks import Hooks
from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.mqtt import reason_codes as rc
from heliograph.node.authorization import deny_by_default
from heliograph.node.listeners import make_listeners
from heliograph.node.options import database_options, make_broker, retainer_options, retention_options
from heliograph.node.reports import HookFailureLog, ProtocolErrorLog
from heliograph.node.services import Services
from heliograph.node.sessions import DurableSessions, open_sessions
from heliograph.node.sink import StorageSink
from heliograph.retainer.memory import MemoryRetainer
from heliograph.session.outbox import Flusher
from heliograph.session.table import SessionTable
from heliograph.storage.compaction import Compactor
from heliograph.storage.errors import StorageError, StorageFullError
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.local import LocalBackend, LocalDatabase
from heliograph.storage.reader_process import ReaderProcess
from heliograph.storage.retention import Retention
from heliograph.transport.listener import Listener

_log = logging.getLogger(__name__)

_TICK_S = 0.5
_SLOW_CLIENTS_LOGGED = 20
_STORAGE_ALARM = "storage_refuses_messages"
_GOODBYE_S = 3.0  # how long clients have to take their DISCONNECT

# A commit's worker thread must not wait 5 ms for the interpreter while the loop is busy.
_SWITCH_INTERVAL_S = 0.0005
# Nothing on a message's way is part of a cycle, and a collection of a full broker takes long: let it be rare.
_GC_THRESHOLDS = (50_000, 20, 100)


class NodeError(Exception):
    """The node cannot start; the message says why and which setting to change."""

    code: ClassVar[str] = "node_data_dir"


class Node:
    """One broker process: owns everything in it from `start` to `stop`.

    Args:
        config: The whole configuration.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._data_dir = Path(config.node.data_dir)
        self.broker = make_broker(config, Hooks(HookFailureLog()))
        self._context: ChannelContext | None = None
        self._listeners: list[Listener] = []
        self._database: LocalDatabase | None = None
        self._group: GroupCommit | None = None
        self._retention: Retention | None = None
        self._compactor: Compactor | None = None
        self._reader: ReaderProcess | None = None
        self._sessions: DurableSessions | None = None
        self._services: Services | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._storage_error: StorageError | None = None  # why nothing is stored, while that is so
        self._lock: TextIO | None = None  # held open while this process owns the data directory

    async def start(self) -> None:
        """Start every part, listeners last.

        Raises:
            ListenerError: A listener cannot be opened.
            NodeError: The data directory cannot be used, or another node uses it.
            StorageError: The storage reader does not start.
        """
        _tune_interpreter()
        self._lock = _lock(self._data_dir)
        self._begin_turn()
        self._context = self._make_context()
        self._start_storage()
        if self._database is not None:
            table = self._context.sessions
            self._sessions = open_sessions(self._config, self._data_dir, self._database, table, self._begin_turn)
        flight = self._config.durable_storage.flight
        if flight.enable:
            self._reader = ReaderProcess(self._data_dir, str(flight.bind))
        if self._config.retainer.enable:
            self.broker.retained = MemoryRetainer(self.broker, retainer_options(self._config.retainer))
        deny_by_default(self._config.authorization, self.broker)
        self._services = Services(self._config, self._context, self.statistics, lambda: int(time.time()))
        self._services.start()
        if self._storage_error is not None:
            self._alarm(self._storage_error)
        if self._reader is not None:
            await self._reader.start()
        self._listeners = make_listeners(self._config, self._context)
        for listener in self._listeners:
            await listener.start()
        self._ticker = asyncio.create_task(self._tick(), name="ticker")

    async def stop(self) -> None:
        """Stop accepting, say goodbye, commit what was taken, stop the reader."""
        for listener in self._listeners:
            await listener.stop_accepting()
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        if self._context is not None:
            self._context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
        for listener in self._listeners:
            await listener.close(_GOODBYE_S)
        if self._services is not None:
            self._services.stop()
        if self._compactor is not None:
            self._compactor.stop()
        if self._group is not None:
            await self._group.close()
        if self._sessions is not None:
            await self._sessions.close()
        if self._reader is not None:
            await self._reader.stop()
        if self._database is not None:
            self._database.close()
        if self._lock is not None:
            self._lock.close()

    def ready_line(self) -> str:
        """One line that says where the node can be reached."""
        places = [f"mqtt {listener.address}" for listener in self._listeners]
        if self._reader is not None:
            places.append(f"flight grpc://{self._reader.bind}")
        return f"heliograph {__version__} is ready: {', '.join(places) or 'no listener is enabled'}"

    def statistics(self) -> dict[str, float]:
        """Every counter and size of the node."""
        numbers: dict[str, float] = dict(self.broker.counters.snapshot())
        numbers.update(self.broker.statistics())
        numbers.update({f"hooks.failed.{name}": self.broker.hooks.point(name).failures_count for name in hooks.NAMES})
        if self._context is not None:
            numbers.update(self._context.sessions.statistics())
            numbers.update(self._context.channels.statistics())
        if isinstance(self.broker.retained, MemoryRetainer):
            numbers.update(self.broker.retained.statistics())
        if self._services is not None:
            numbers.update(self._services.statistics())
        if self._sessions is not None:
            numbers.update(self._sessions.statistics())
        if self._group is not None:
            numbers.update({f"storage.{name}": value for name, value in self._group.statistics().items()})
        if self._database is not None and self._retention is not None:
            counts = {**self._database.statistics(), **self._retention.statistics()}
            numbers.update({f"storage.{name}": value for name, value in counts.items()})
        if self._compactor is not None:
            numbers.update({f"storage.{name}": value for name, value in self._compactor.statistics().items()})
        if self._reader is not None:
            numbers.update({f"reader.{name}": value for name, value in self._reader.statistics().items()})
        for listener in self._listeners:
            for name, value in listener.statistics().items():
                numbers[f"listeners.{listener.kind}.{listener.name}.{name}"] = value
        return numbers

    def log_statistics(self) -> None:
        """Write every counter that is not zero into the log, and whom most messages were dropped for, as JSON."""
        numbers = {name: value for name, value in sorted(self.statistics().items()) if value}
        _log.info("statistics %s", json.dumps(numbers))
        if self._context is not None:
            slow = self._context.sessions.most_dropped(_SLOW_CLIENTS_LOGGED)
            _log.info("dropped messages by client %s", json.dumps(slow))

    def reload_certificates(self) -> None:
        """Have every listener read its certificates again; connections that stand are not touched."""
        for listener in self._listeners:
            listener.reload_certificates()

    def _make_context(self) -> ChannelContext:
        loop = asyncio.get_running_loop()
        broker = self.broker
        return ChannelContext(
            _node_number(self._config.node.name),
            broker,
            SessionTable(broker),
            Flusher(loop.call_soon, broker.counters),
            _uptime_us,
            loop.call_soon,
            loop.call_later,
            lambda: f"auto-{secrets.token_hex(11).upper()}",
            ProtocolErrorLog(),
        )

    def _start_storage(self) -> None:
        settings = self._config.durable_storage.messages
        if not settings.topics:
            return
        self._database = LocalBackend(self._data_dir).database("messages", database_options(settings))
        self._retention = Retention(self._database, retention_options(settings))
        self._compactor = Compactor(self._database)
        self._compactor.start()
        try:
            self._database.open()
        except StorageError as error:
            # The broker serves what needs no storage; each publish that does tries again and is refused until it works.
            _log.error("the database of messages cannot be opened [%s]: %s", error.code, error)
            self._storage_error = error
        self._group = GroupCommit(
            self._database, self._committed, fsync=settings.fsync, max_buffered_bytes=settings.max_buffered_bytes
        )
        self.broker.set_sink(StorageSink(self._group, settings.topics))

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        group, context = self._group, self._context
        if group is None or context is None:
            return
        code = rc.SUCCESS
        if error is not None:
            code = rc.QUOTA_EXCEEDED if isinstance(error, StorageFullError) else rc.UNSPECIFIED_ERROR
        if (error is None) != (self._storage_error is None):
            self._tell_storage(error)
        if self._sessions is not None:
            self._sessions.on_messages_committed(ticket)
        context.commits.done(ticket, code, not group.is_full)

    def _tell_storage(self, error: StorageError | None) -> None:
        self._storage_error = error
        if error is not None:
            _log.error("storage refuses messages [%s]: %s", error.code, error)
            self._alarm(error)
            return
        _log.warning("storage takes messages again")
        if self._services is not None:
            self._services.alarms.deactivate(_STORAGE_ALARM)

    def _alarm(self, error: StorageError) -> None:
        if self._services is not None:
            details = {"code": error.code, "database": error.database, "path": str(error.path or "")}
            self._services.alarms.activate(_STORAGE_ALARM, str(error), details)

    def _begin_turn(self) -> int:
        """Tell the broker the time on both clocks; between ticks the wall clock is taken to run like the other."""
        uptime = _uptime_us()
        self.broker.wall_offset_us = time.time_ns() // 1000 - uptime
        self.broker.begin_turn(uptime)
        return uptime

    async def _tick(self) -> None:
        context = self._context
        assert context is not None
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._begin_turn()
            try:
                context.channels.tick(now)
                context.sessions.expire(now)
                if isinstance(self.broker.retained, MemoryRetainer):
                    self.broker.retained.sweep()
                if self._services is not None:
                    self._services.tick(now)
                if self._sessions is not None:
                    self._sessions.tick(now)
                if self._retention is not None:
                    self._retention.tick(self.broker.wall_offset_us + now)
                for listener in self._listeners:
                    listener.tick(now)
            except Exception:  # noqa: BLE001 - whatever fails, time must go on
                # Without the ticker no connection would ever time out and no session end.
                _log.exception("a tick failed; the next one comes in %s s", _TICK_S)


def _lock(data_dir: Path) -> TextIO:
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "node.lock").open("a")
    except OSError as error:
        raise NodeError(f"node.data_dir {str(data_dir)!r} cannot be used: {error.strerror}. Choose another") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        advice = "Stop it, or choose another directory with node.data_dir or --data-dir"
        raise NodeError(f"node.data_dir {str(data_dir)!r} is used by another node. {advice}") from error
    return lock


def _tune_interpreter() -> None:
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _uptime_us() -> int:
    return time.monotonic_ns() // 1000


def _node_number(name: str) -> int:
    # Nodes have no numbers yet that a cluster gave them; the name is what tells them apart.
    return zlib.crc32(name.encode()) & 0x7FFF
