"""Durable sessions of a node: reads them when they are needed, saves what changes, and replays what they have missed.

`session.durable` knows what a durable session is, docs/durable_sessions.md what waits for what.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from heliograph.broker.faults import SESSIONS
from heliograph.broker.pending import Pending
from heliograph.broker.subscription import Subscription
from heliograph.channel.options import ChannelOptions
from heliograph.config.storage import DurableSessionsConfig
from heliograph.durable_sessions import record
from heliograph.durable_sessions.coverage import Coverage
from heliograph.durable_sessions.head import CommitHead, CommittedDatabase
from heliograph.durable_sessions.inflight import LostInflight
from heliograph.durable_sessions.loading import SessionLoader
from heliograph.durable_sessions.lookups import SessionLookups
from heliograph.durable_sessions.replay import ReplayedDatabase
from heliograph.durable_sessions.replay_turns import Replays
from heliograph.durable_sessions.saver import SessionSaver
from heliograph.durable_sessions.scan import SessionScan
from heliograph.durable_sessions.start import SessionStart
from heliograph.durable_sessions.sweep import SessionSweep
from heliograph.durable_sessions.taken_messages import SavedTakenMessages
from heliograph.durable_sessions.wills import SavedWills
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.observe.alarms import Alarms
from heliograph.parts.loop import Loop
from heliograph.session.cursor import Beginning
from heliograph.session.durability import Durability, SavedSubscription
from heliograph.session.durable import DurableSession
from heliograph.session.options import SessionOptions
from heliograph.session.session import Session
from heliograph.session.table import SessionTable
from heliograph.session.will import Will
from heliograph.storage.errors import StorageError
from heliograph.storage.health import Health
from heliograph.storage.state.interface import StateDatabase

_log = logging.getLogger(__name__)

_REFUSED_ALARM: Final = "durable_sessions_refused"


class MessageDatabase(ReplayedDatabase, CommittedDatabase, Protocol):
    pass


class DurableSessions(Durability):
    """Every durable session of a node; owned by the node, in whose event loop it lives.

    Args:
        begin_turn: Tells the broker the time; called when the loop calls.
        alarms: Where alarms stand while session state is refused, and when a session has lost something.

    Attributes:
        health: Whether sessions can be read and saved; looked at in each tick.
    """

    def __init__(
        self,
        settings: DurableSessionsConfig,
        topics: Sequence[str],
        messages: MessageDatabase,
        state: StateDatabase,
        table: SessionTable,
        loop: Loop,
        begin_turn: Callable[[], object],
        options: ChannelOptions,
        alarms: Alarms,
    ) -> None:
        broker = table.broker
        super().__init__(broker.faults)
        self._settings = settings
        self._coverage = Coverage(topics)
        self._state = state
        self._table = table
        self._replays = Replays(messages, settings.batch_size, loop, begin_turn, broker.faults, alarms)
        self._inflight = LostInflight(messages)
        self._loop = loop
        self._faults = broker.faults
        self._parking: deque[DurableSession] = deque()  # what takes turns at it
        self.head = CommitHead(self, messages, broker, self._replays)
        self.saver = SessionSaver(self, state, table, self._inflight, self.head, loop)
        self._journal = journal = self.saver.journal
        self.taken = SavedTakenMessages(messages, self.saver, lambda: int(broker.uptime_us))
        self._loader = SessionLoader(table, self, journal, self._inflight, options.session)
        self._lookups = SessionLookups(loop, begin_turn, broker.faults, lambda: int(broker.uptime_us))
        self._wills = SavedWills(journal, table, options)
        self._scan = SessionScan(
            table, journal, self._loader, loop, self.saver.gather, lambda: self.start.on_discovered()
        )
        self._sweep = SessionSweep(table, journal, self._inflight, self._replays)
        found = (self.saver, self._loader, self._scan, self._wills)
        self.start = SessionStart(self, self._coverage, messages, table, self.head, *found)
        self._saves_due_us = 0
        self.health = Health(_log, alarms, _REFUSED_ALARM, "", "")  # the log says it with more detail

    # --- sessions that come, sleep and end

    def look_up(self, clientid: str, clean_start: bool) -> Pending[bool] | None:
        if self.start.fault is not None:
            return None  # unknown; `begin` and `give_up` see to it
        session = self._table.held(clientid)
        if session is None or (isinstance(session, DurableSession) and session.has_lost and not clean_start):
            return self._lookups.begin(clientid, self._loader.read_for_client(clientid, clean_start))
        return None

    def awaken(self, clientid: str) -> Session | None:
        if self.start.fault is not None:
            return None  # unknown; `begin` and `give_up` see to it
        try:
            return self._loader.awaken(clientid)
        except StorageError as error:
            self._lookups.on_unreadable(clientid, error)
            detail = f"the session of {clientid!r} cannot be read now"
            raise ProtocolError(detail, rc.SERVER_UNAVAILABLE) from error

    def saved_subscriptions(self, clientid: str) -> Iterator[list[SavedSubscription]]:
        return self._loader.saved_subscriptions(clientid)

    def all_saved_subscriptions(self, part: str = "") -> Iterator[list[tuple[str, SavedSubscription]]]:
        return self._loader.all_saved_subscriptions(part)

    @property
    def options(self) -> SessionOptions:
        return self._loader.options

    def begin(self, clientid: str) -> None:
        if self.start.fault is not None:
            raise ProtocolError(f"whether {clientid!r} has a session cannot be read now", rc.SERVER_UNAVAILABLE)
        if self.knows_all and not self._table.knows(clientid) and not self._scan.keeps(clientid):
            return
        try:
            if self._journal.get(record.session_key(clientid)) is not None:
                self._scan.remove_now(clientid)
        except StorageError as error:
            detail = f"what an earlier session of {clientid!r} left cannot be removed now"
            raise ProtocolError(detail, rc.SERVER_UNAVAILABLE) from error

    def give_up(self, clientid: str, clean_start: bool) -> None:
        self.start.give_up(clientid, clean_start)

    def end(self, session: Session) -> int:
        clientid = session.clientid
        if isinstance(session, DurableSession):
            self.saver.forget(session)
            self._replays.end(session)
            self._inflight.forget(session)
        batch = self._journal.batch
        batch.delete(record.session_key(clientid))
        batch.delete(record.taken_up_to_key(clientid))
        if session.subscriptions:  # more than could be dropped at once
            batch.delete_prefix(record.subscription_key(clientid, ""))
        try:
            for key, _ in self._journal.scan(record.orphan_prefix(clientid)):
                batch.delete(key)
        except StorageError:
            batch.delete_prefix(record.orphan_prefix(clientid))
        return self.saver.gather()

    def end_asleep(self, clientid: str) -> None:
        self._scan.remove(clientid)

    def covers(self, topic_filter: str) -> bool:
        return self._coverage.covers(topic_filter)

    # --- what sessions say

    def save(self, session: Session) -> int:
        if isinstance(session, DurableSession):
            return self.saver.save(session)
        return self.saver.gather()

    def save_subscription(self, session: Session, name: str, subscription: Subscription, beginning: Beginning) -> int:
        key = record.subscription_key(session.clientid, name)
        self._journal.batch.put(key, record.encode_subscription(subscription, beginning, session.mountpoint))
        return self.saver.gather()

    def forget_subscription(self, session: Session, name: str) -> int:
        self._journal.batch.delete(record.subscription_key(session.clientid, name))
        return self.saver.gather()

    def save_will(self, clientid: str, will: Will) -> int:
        self._wills.save(clientid, will)
        return self.saver.gather()

    def forget_will(self, clientid: str, will: Will) -> None:
        self._wills.forget(clientid, will)
        self.saver.gather()

    def recall(self, session: Session) -> None:
        if not isinstance(session, DurableSession):
            return
        try:
            self._inflight.give_back(session)
        except StorageError as error:
            self._lookups.on_unreadable(session.clientid, error)
            detail = f"what is in flight to {session.clientid!r} cannot be read now"
            raise ProtocolError(detail, rc.SERVER_UNAVAILABLE) from error

    def park(self, session: Session) -> None:
        if isinstance(session, DurableSession):
            self._parking.append(session)
            if len(self._parking) == 1:
                self._loop.call_soon(self._park_some)

    def _park_some(self) -> None:
        session = self._parking.popleft()
        try:
            if not session.park_some():
                self._parking.append(session)
        except Exception as error:  # noqa: BLE001 - the others are parked too, whatever it is
            self._faults.contain(SESSIONS, error)
        if self._parking:
            self._loop.call_soon(self._park_some)

    def want(self, session: Session) -> None:
        if isinstance(session, DurableSession):
            self._replays.want(session)

    # --- what the node says

    def use(self, settings: DurableSessionsConfig, options: ChannelOptions) -> None:
        """Use other settings, from the next turn on, and other options of sessions until their clients come."""
        self._settings = settings
        self._loader.options = options.session
        self._wills.options = options
        self._replays.batch_size = settings.batch_size

    async def prepare_topics(self, topics: Sequence[str]) -> tuple[Callable[[], None], Callable[[], None]]:
        """Make sessions ready for other stored topics: see `Coverage.prepare`."""
        if self.start.fault is not None:
            raise self.start.fault
        return await self._coverage.prepare(topics, self._table, self._journal, self._loader)

    def tick(self, uptime_us: int) -> None:
        self.health.tell(self.start.fault or self._journal.refusal)
        if self.start.fault is not None:
            self.start.retry(uptime_us)
        elif uptime_us >= self._saves_due_us:
            self._saves_due_us = uptime_us + int(self._settings.checkpoint_interval * 1_000_000)
            self._sweep.go_on(uptime_us)
            self.saver.checkpoint()

    async def close(self) -> None:
        self._scan.stop()
        self._lookups.stop()
        self.saver.save_now()
        await self._state.close()

    def statistics(self) -> dict[str, float]:
        numbers: dict[str, float] = dict(self._replays.statistics())
        numbers.update(self._journal.statistics())
        numbers.update(self._scan.statistics())
        numbers.update(self._lookups.statistics())
        numbers["durable_sessions.awoken"] = self._loader.awoken_count
        numbers["durable_sessions.slept"] = self._sweep.slept_count
        numbers["durable_sessions.forgotten"] = self._inflight.forgotten_count
        numbers["durable_sessions.asleep"] = int(self._table.asleep_count)
        return numbers

    def __repr__(self) -> str:
        return f"DurableSessions({len(self._table)} sessions, {self._replays})"
