"""A node: builds every part from the configuration, joins them, and starts and stops them in order."""

import asyncio
import fcntl
import gc
import json
import logging
import os
import secrets
import sys
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar, TextIO

from heliograph import __version__
from heliograph.broker import hooks
from heliograph.broker.faults import COMMITS
from heliograph.broker.hooks import Hooks
from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.durable_sessions.sessions import DurableSessions
from heliograph.mqtt import reason_codes as rc
from heliograph.node import announcements
from heliograph.node.authorization import deny_by_default
from heliograph.node.client_attrs import ZoneAttributes
from heliograph.node.clock import NodeClock, uptime_us
from heliograph.node.databases import Databases, is_needed
from heliograph.node.delayed import StoredDelayed, open_delayed
from heliograph.node.durable_sessions import open_sessions
from heliograph.node.listeners import make_listeners, tell_unreachable_limits
from heliograph.node.memory import MemoryContract
from heliograph.node.memory_limit import limit_bytes
from heliograph.node.options import make_broker
from heliograph.node.pipeline import PipelineProcess, make_pipeline
from heliograph.node.refusals import Refusals, refusal_code
from heliograph.node.reports import FaultLog, HookFailureLog, ProtocolErrorLog
from heliograph.node.retained import RetainedMessages, is_on_disc, open_retained
from heliograph.node.schemas import make_environment
from heliograph.node.services import Services
from heliograph.node.shared_groups import NodeGroups, open_shared_groups
from heliograph.observe.bounded_log import BoundedLog
from heliograph.rules.engine import RuleEngine
from heliograph.rules.environment import Environment
from heliograph.session.outbox import Flusher
from heliograph.session.table import SessionTable
from heliograph.storage.errors import StorageError
from heliograph.storage.reader.local_token import FILE, announce, withdraw
from heliograph.storage.reader.process import ReaderProcess
from heliograph.storage.reader.security import ReaderSecurity
from heliograph.transport import open_files
from heliograph.transport.listener import Listener

_log = logging.getLogger(__name__)

_TICK_S = 0.5
_ANNOUNCE_AGAIN_US = 3_600_000_000
_DAMAGE_ALARM = "stored_messages_damaged"
_FILES_ALARM = "too_many_open_files"
_FOLDERS = ("storage", "state", "keyed")  # of a data directory, with what was published
_SLOW_CLIENTS_LOGGED = 20
_GOODBYE_S = 3.0  # how long clients have to take their DISCONNECT

# A commit's worker thread must not wait 5 ms for the interpreter while the loop is busy.
_SWITCH_INTERVAL_S = 0.0005
# Nothing on a message's way is part of a cycle, and a collection of a full broker takes long: let it be rare. One of
# young objects takes 1 to 3 ms for 10,000 of them, which is what the first two numbers make of it.
_GC_THRESHOLDS = (2_000, 4, 12_500)


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
        self.broker.faults.on_fault = FaultLog()
        self._clock = NodeClock(self.broker)
        self._refusals = Refusals(self.broker)
        self._announce_at_us = 0  # the node's own token to programs of its user
        self._damaged_places = 0  # that a reader of stored messages met
        self._damage_log = BoundedLog(_log, uptime_us)
        self._context: ChannelContext | None = None
        self._listeners: list[Listener] = []
        self._databases: Databases | None = None
        self._reader: ReaderProcess | None = None
        self._pipeline: PipelineProcess | None = None
        self._sessions: DurableSessions | None = None
        self._groups: NodeGroups | None = None
        self._retained: RetainedMessages | None = None
        self._environment: Environment | None = None
        self._services: Services | None = None
        self._delayed: StoredDelayed | None = None
        self._attributes: ZoneAttributes | None = None
        self._memory: MemoryContract | None = None
        self._ticker: asyncio.Task[None] | None = None
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
        announcements.tell_begin(self._config, self._data_dir)
        self._clock.begin_turn()
        self._context = self._make_context()
        if is_needed(self._config):
            self._databases = Databases(
                self._config,
                self._data_dir,
                self._stored,
                self._committed,
                self._clock.now_us,
                self._refusals,
                self.broker.faults,
            )
            self.broker.set_sink(self._databases.sink)
            with suppress(StorageError):  # whoever needs it is told
                self._clock.expect_after(self._databases.messages.database.newest_commit_us())
        if self._config.retainer.enable:
            join = None if self._databases is None else self._databases.join
            self._retained = open_retained(self._config, self._data_dir, self.broker, join, self._refusals)
            self.broker.retained = self._retained.retainer
        if self._databases is not None and self._config.durable_storage.messages.topics:
            messages, table = self._databases.messages.database, self._context.sessions
            databases, begin_turn = self._databases, self._clock.begin_turn
            self._groups = open_shared_groups(
                self._config, self._data_dir, lambda: databases.site_id, messages, self.broker, begin_turn
            )
            joined = None if self._groups is None else self._groups.join
            self._sessions = open_sessions(self._config, self._data_dir, messages, table, begin_turn, joined)
            if self._groups is not None:
                self._groups.start(table)
        flight = self._config.durable_storage.flight
        if flight.enable:
            security = partial(ReaderSecurity.of, flight, self._data_dir)
            self._reader = ReaderProcess(
                self._data_dir, str(flight.bind), security=security, on_damage=self._tell_damage
            )
        deny_by_default(self._config.authorization, self.broker)
        self._environment = make_environment(self._config)
        self._services = Services(
            self._config,
            self._context,
            self._environment,
            self.statistics,
            lambda: int(time.time()),
            None if self._databases is None else self._databases.sink.append_row,
            asyncio.get_running_loop().call_soon_threadsafe,
        )
        if self._databases is not None:
            self._delayed = open_delayed(self._config, self._data_dir, self._services.delayed, self._databases.join)
        self._services.start()
        self._clock.report_to(self._services.alarms)
        if self._databases is not None:
            self._databases.report_to(self._services.alarms)
        if self._delayed is not None:
            self._delayed.report_to(self._services.alarms)
        if self._sessions is not None:
            self._sessions.report_to(self._services.alarms)
        if self._retained is not None:
            self._retained.report_to(self._services.alarms)
        if self._reader is not None:
            self._reader.report_to(self._services.alarms)
            await self._reader.start()
            self._announce_token(self._reader, uptime_us())
        self._tell_parts(self._context)
        self._memory = MemoryContract(
            limit_bytes(self._config.node.memory_limit),
            self.broker,
            self._context.sessions,
            self._context.channels,
            self._services.delayed,
            self._services.alarms,
            self._numbers,
        )
        self._attributes = ZoneAttributes(self._config, self._context.clock, self._environment)
        self._listeners = make_listeners(self._config, self._context, self._attributes)
        tell_unreachable_limits(self._config)
        for listener in self._listeners:
            await listener.start()
        announcements.tell_listeners(self._listeners, self.broker.hooks)
        if self._config.pipeline.enable and self._reader is not None:
            self._pipeline = make_pipeline(
                self._config, self._data_dir, self._reader.bind, self._listeners, self._services.alarms
            )
            self._pipeline.start()
        self._ticker = asyncio.create_task(self._tick(), name="ticker")

    async def stop(self) -> None:
        """Stop accepting, say goodbye, commit what was taken, stop the reader."""
        began = time.monotonic()
        if self._context is not None:
            announcements.tell_stop_begins(self._context.channels.statistics()["live_connections.count"])
        if self._pipeline is not None:
            await self._pipeline.stop()
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
        if self._environment is not None:
            self._environment.close()
        if self._retained is not None:
            await self._retained.stop()
        if self._databases is not None:
            await self._databases.stop()
        if self._delayed is not None:
            await self._delayed.close()
        if self._groups is not None:
            await self._groups.close()
        if self._sessions is not None:
            await self._sessions.close()
        if self._reader is not None:
            withdraw(self._reader.bind, self._data_dir)
            await self._reader.stop()
        if self._databases is not None:
            self._databases.close()
        if self._lock is not None:
            self._lock.close()
        if self._ticker is not None:
            announcements.tell_stopped(time.monotonic() - began, self._reader is not None)

    def ready_line(self) -> str:
        """One line that says where the node can be reached."""
        places = [f"mqtt {listener.address}" for listener in self._listeners]
        if self._reader is not None:
            places.append(f"flight grpc://{self._reader.bind}")
        return f"heliograph {__version__} is ready: {', '.join(places) or 'no listener is enabled'}"

    def statistics(self) -> dict[str, float]:
        """Every counter and size of the node."""
        numbers = self._numbers()
        if self._memory is not None:
            numbers.update(self._memory.statistics())
        return numbers

    def _numbers(self) -> dict[str, float]:
        """All but those of memory, which are made of these."""
        numbers: dict[str, float] = dict(self.broker.counters.snapshot())
        numbers.update(self.broker.statistics())
        numbers.update(self._clock.statistics())
        numbers.update({f"hooks.failed.{name}": self.broker.hooks.point(name).failures_count for name in hooks.NAMES})
        if self._context is not None:
            numbers.update(self._context.sessions.statistics())
            numbers.update(self._context.sessions.published_wills.statistics())
            numbers.update(self._context.channels.statistics())
            numbers.update(self._context.turns.statistics())
        if self._retained is not None:
            numbers.update(self._retained.statistics())
        if self._services is not None:
            numbers.update(self._services.statistics())
        if self._sessions is not None:
            numbers.update(self._sessions.statistics())
        if self._delayed is not None:
            numbers.update(self._delayed.statistics())
        if self._groups is not None:
            numbers.update(self._groups.statistics())
        if self._databases is not None:
            numbers.update(self._databases.statistics())
        if self._attributes is not None:
            numbers.update(self._attributes.statistics())
        if self._pipeline is not None:
            numbers.update(self._pipeline.statistics())
        if self._reader is not None:
            numbers.update({f"reader.{name}": value for name, value in self._reader.statistics().items()})
            numbers["reader.damaged_places"] = self._damaged_places
        for listener in self._listeners:
            for name, value in listener.statistics().items():
                numbers[f"listeners.{listener.kind}.{listener.name}.{name}"] = value
        return numbers

    @property
    def rules(self) -> RuleEngine:
        """The rule engine of a node that has started."""
        assert self._services is not None
        return self._services.rules

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

    def _tell_damage(self, damage: Mapping[str, object]) -> None:
        """Log what the storage reader found damaged, and raise an alarm until the node starts again."""
        told = (
            f"a reader of stored messages met damage in the database {damage['database']!r} "
            f"(stream {str(damage['stream'])!r}): {damage['problem']}. Stop the node and mend it with "
            f"`heliograph storage check --repair {damage['database']}`"
        )
        self._damaged_places += 1
        self._damage_log.write(logging.ERROR, "%s", told)
        if self._services is not None:
            self._services.alarms.activate(_DAMAGE_ALARM, told, damage)

    def _watch_open_files(self) -> None:
        """Raise an alarm while connections wait for open files."""
        if self._services is None:
            return
        waiting = [listener.address for listener in self._listeners if listener.statistics().get("out_of_files")]
        if not waiting:
            self._services.alarms.deactivate(_FILES_ALARM)
            return
        told = (
            f"connections to {', '.join(waiting)} wait: {open_files.limit()} files may be open, of which "
            f"{open_files.reserve(open_files.limit())} are kept for storage. Raise that limit (ulimit -n), or bound "
            "connections with max_connections"
        )
        self._services.alarms.activate(_FILES_ALARM, told, {"open_files_max": open_files.limit()})

    def _announce_token(self, reader: ReaderProcess, now: int) -> None:
        """Let programs of this user find the node's own token, where that is asked for; again each hour."""
        if now < self._announce_at_us:
            return
        self._announce_at_us = now + _ANNOUNCE_AGAIN_US
        flight = self._config.durable_storage.flight
        if flight.tokens or flight.require_token != "auto":  # the file is of an earlier start
            withdraw(reader.bind, self._data_dir)
            return
        try:
            announce(reader.bind, self._data_dir)
        except OSError as error:
            _log.warning("clients of the storage reader must be given the token in %s: %s", FILE, error)

    def _tell_parts(self, context: ChannelContext) -> None:
        databases = () if self._databases is None else self._databases.names
        if self._retained is None:
            retained = "none"
        else:
            retained = f"{len(self._retained.retainer)} {'on the disk' if is_on_disc(self._config) else 'in memory'}"
        reader = "" if self._reader is None else f"grpc://{self._reader.bind}"
        announcements.tell_parts(databases, retained, len(context.sessions), reader)

    def _make_context(self) -> ChannelContext:
        loop = asyncio.get_running_loop()
        broker = self.broker
        sessions = SessionTable(broker)
        sessions.away_max = self._config.broker.max_disconnected_sessions or 0
        return ChannelContext(
            _node_number(self._config.node.name),
            broker,
            sessions,
            Flusher(loop.call_soon, broker.counters, broker.faults),
            uptime_us,
            loop.call_soon,
            loop.call_later,
            lambda: f"auto-{secrets.token_hex(11).upper()}",
            ProtocolErrorLog(),
        )

    def _stored(self, ticket: int, error: StorageError | None) -> None:
        run = self.broker.faults.run  # one that raises keeps its commit from nobody else
        if self._sessions is not None:
            run(COMMITS, partial(self._sessions.on_messages_committed, ticket, error is not None))
        if self._groups is not None:
            run(COMMITS, partial(self._groups.on_messages_committed, error is not None))
        if self._services is not None:
            run(COMMITS, partial(self._services.rules.on_rows_stored, ticket, error))

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        databases, context = self._databases, self._context
        if databases is None or context is None:
            return
        own = databases.join.own_error
        has_room, reason = not databases.sink.is_filling(), "" if error is None else error.reason
        context.commits.done(ticket, refusal_code(own), has_room, refusal_code(error), reason)
        run = self.broker.faults.run
        if self._sessions is not None:
            run(COMMITS, partial(self._sessions.on_joined, ticket))
        run(COMMITS, partial(context.sessions.on_committed, ticket, own is not None, error is not None))
        if self._services is not None:
            run(COMMITS, partial(self._services.delayed.on_committed, ticket, own is not None, error is not None))

    async def _tick(self) -> None:
        context = self._context
        assert context is not None
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._clock.begin_turn()
            try:
                while context.channels.tick(now):
                    await asyncio.sleep(0)
                    now = self._clock.begin_turn()
                context.sessions.expire(now)
                if self._retained is not None:
                    self._retained.tick()
                if self._services is not None:
                    self._services.tick(now)
                if self._sessions is not None:
                    self._sessions.tick(now)
                if self._delayed is not None:
                    self._delayed.tick()
                if self._groups is not None:
                    self._groups.tick()
                if self._memory is not None:
                    self._memory.tick()
                if self._databases is not None:
                    self._databases.tick(int(self.broker.now_us))
                for listener in self._listeners:
                    listener.tick(now)
                self._watch_open_files()
                if self._reader is not None:
                    self._announce_token(self._reader, now)
            except Exception:  # noqa: BLE001 - whatever fails, time must go on
                # Without the ticker no connection would ever time out and no session end.
                _log.exception("a tick failed; the next one comes in %s s", _TICK_S)


def _lock(data_dir: Path) -> TextIO:
    os.umask(0o077)  # what was published is for this user only
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        _close_to_others(data_dir)
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


def _close_to_others(data_dir: Path) -> None:
    """Let nobody else into a data directory that is open to others: an earlier version's, or one made by hand."""
    if data_dir.stat().st_mode & 0o077 == 0:
        return
    try:
        data_dir.chmod(0o700)
        for path in (one for folder in _FOLDERS for one in (data_dir / folder, *(data_dir / folder).rglob("*"))):
            if path.exists() and not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError as error:
        _log.warning("others may be able to read node.data_dir %s: %s", data_dir, error)


def _tune_interpreter() -> None:
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _node_number(name: str) -> int:
    # Nodes have no numbers yet that a cluster gave them; the name is what tells them apart.
    return zlib.crc32(name.encode()) & 0x7FFF
