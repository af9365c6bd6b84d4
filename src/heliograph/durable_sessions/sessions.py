"""Durable sessions of a node: reads them when they are needed, saves what changes, and replays what they have missed.

`session.durable` knows what a durable session is, docs/durable_sessions.md what waits for what.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from heliograph.broker.faults import COMMITS, SESSIONS
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.broker.repetition import Repetition
from heliograph.broker.subscription import Subscription
from heliograph.channel.options import ChannelOptions
from heliograph.config.sessions import DurableSessionsConfig
from heliograph.durable_sessions import record
from heliograph.durable_sessions.inflight import LostInflight
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.durable_sessions.loading import SessionLoader
from heliograph.durable_sessions.lookups import SessionLookups
from heliograph.durable_sessions.orphans import claim_orphan
from heliograph.durable_sessions.replay import ReplayedDatabase, newest_retained
from heliograph.durable_sessions.replay_turns import Loop, Replays
from heliograph.durable_sessions.scan import SessionScan
from heliograph.durable_sessions.taken import TakenRecords
from heliograph.durable_sessions.wills import SavedWills
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.topic import filter_covers
from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog
from heliograph.session.durability import Durability
from heliograph.session.durable import DurableSession
from heliograph.session.session import Session
from heliograph.session.table import SessionTable
from heliograph.session.will import Will
from heliograph.storage.errors import StorageDamagedError, StorageError, StorageFullError, UnknownStreamError
from heliograph.storage.health import Health
from heliograph.storage.state.interface import StateDatabase

_log = logging.getLogger(__name__)

_SAVED_PER_TURN: Final = 256
_SWEEP_US: Final = 60_000_000
_SLEEP_US: Final = 60_000_000  # how long a session stays in memory whose client is away
_RETRY_US: Final = 1_000_000
_GIVEN_UP_MAX: Final = 100_000
_REFUSED_ALARM: Final = "durable_sessions_refused"


class MessageDatabase(ReplayedDatabase, Protocol):
    """The methods of the database of messages that are used here."""

    def newest_commit_us(self) -> int:
        """The time of the newest commit.

        Raises:
            StorageError: It is not known now.
        """


class DurableSessions(Durability):
    """Every durable session of a node; owned by the node, in whose event loop it lives.

    Args:
        topics: Of which topics `messages` has all messages, as filters.
        messages: The database of messages; may be out of order.
        state: The database of sessions.
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
        broker: Broker,
        loop: Loop,
        begin_turn: Callable[[], object],
        options: ChannelOptions,
        alarms: Alarms,
    ) -> None:
        super().__init__(broker.faults)
        self._settings = settings
        self._topics = topics
        self._messages = messages
        self._state = state
        self._table = table
        self._broker = broker
        self._loop = loop
        self._journal = SessionJournal(state, self._on_saved, loop.call_later)
        self._inflight = LostInflight(messages)
        self._loader = SessionLoader(table, self, self._journal, self._inflight, options.session)
        self._lookups = SessionLookups(loop, begin_turn, broker.faults, lambda: int(broker.uptime_us))
        self._wills = SavedWills(self._journal, table, options)
        self._scan = SessionScan(table, self._journal, self._loader, loop, self._gather, self._on_discovered)
        self._dirty: dict[DurableSession, None] = {}
        self._is_gathering = False
        self._marks = False  # whether the next batch says up to when all identifiers are in it
        self._marked_us: int = -1
        self._replays = Replays(messages, settings.batch_size, loop, begin_turn, broker.faults, alarms)
        self._newest_us = 0  # the time of the newest commit
        self._heads: deque[tuple[int, int]] = deque()  # tickets and times of commits that the head does not cover yet
        self._unjoined: deque[tuple[int, int]] = deque()  # the same, with a part that may not be committed
        self._whole: tuple[int, int] = 0, 0  # the newest with all parts committed
        broker.fanouts.on_passed = self._follow
        self._saves_due_us = 0
        self._sweep_due_us = 0
        self._parking: deque[DurableSession] = deque()
        self._swept: list[Session] = []  # of the sweep that is under way
        self._counts = {"awoken": 0, "slept": 0}
        self.on_saved: Callable[[int], object] | None = None  # called with each ticket of session state that is durable
        self.health = Health(_log, alarms, _REFUSED_ALARM, "", "")  # the log says it with more detail
        self._log = BoundedLog(_log, lambda: int(broker.uptime_us))
        self._fault: StorageError | None = None  # why the sessions on the disk are not known yet
        self._given_up: dict[str, None] = {}  # clients that gave a session up meanwhile, if they had one
        self._retry_due_us = 0
        self._is_right = False  # what a crash left of QoS 2 messages was put right

    # --- the start

    def load(self) -> None:
        """Put right what a crash left, and keep sessions from now on. Most are read when their clients come.

        At once are read those that must be awake to get what is not stored, and wills. Until that works it is tried
        again and again; meanwhile clients with durable sessions are refused.
        """
        self._table.keep_in(self)
        try:
            self._load()
        except StorageError as error:
            if self._fault is None:
                _log.error("durable sessions cannot be read, and clients have to wait [%s]: %s", error.code, error)
            self._fault = error
            return
        if self._fault is not None:
            _log.warning("durable sessions can be read again")
        self._fault = None
        self._mark()
        self._scan.begin()

    @property
    def is_loaded(self) -> bool:
        """True once the on-disk index was read; session bodies may still load lazily."""
        return self._fault is None and self._table.durability is self

    def _load(self) -> None:
        """All that may fail comes first, or may be done again."""
        # While the newest message is unknown, a session would count as having all of them.
        self.head_us = self._newest_us = self._messages.newest_commit_us()
        self.head_ticket = self.committed
        self._heads.clear()
        self._unjoined.clear()
        self._whole = self._whole[0], self._newest_us
        self._replays.on_committed(self.head_us, self.committed)
        for clientid in list(self._given_up):
            self._scan.remove_now(clientid)
            del self._given_up[clientid]
        if not self._is_right:
            self._put_right()
        subscriptions = 0
        awake: dict[str, None] = {}
        for key, value in self._journal.scan(record.SUBSCRIPTION):
            subscriptions += 1
            clientid, name = record.owner(key)
            if not self._can_sleep(name.decode(), value):
                awake[clientid] = None
        wills = self._wills.load()
        for clientid in dict(wills):
            self._scan.discover(clientid)
        for clientid in awake:
            if self._table.held(clientid) is None:
                self._loader.load(clientid)
        self._broker.router.parked_count += subscriptions
        for clientid, will in wills:
            self._table.restore_will(clientid, will)

    def _put_right(self) -> None:
        if self._state.get(record.COMPLETE_UP_TO) is not None:
            try:
                TakenRecords(self._messages, self._journal).put_right()
            except StorageError as error:
                _log.error("QoS 2 messages that were under way in a crash may be published twice: %s", error)
        self._is_right = True

    def _can_sleep(self, name: str, value: bytes) -> bool:
        """Whether a session may sleep with this subscription: all that it matches is stored."""
        if name.startswith("$"):  # shared, exclusive, or of topics that are not stored with others
            return False
        try:
            return self.covers(record.decode_subscription(value).mountpoint + name)
        except (ValueError, TypeError):
            return True  # it cannot be read, which is reported when its client comes

    def _on_discovered(self) -> None:
        self.knows_all = True
        if len(self._table):
            _log.info("%d sessions are known", len(self._table))

    @property
    def _complete_us(self) -> int:
        """A commit time: whatever is stored up to it has its identifier gathered, and its part in every database."""
        return min(int(self.head_us), self._whole[1])

    def _mark(self) -> None:
        """Say how far the packet identifiers of what is stored are complete: a start looks no further back."""
        self._marks = True
        self._gather()

    # --- sessions that come, sleep and end

    def look_up(self, clientid: str, clean_start: bool) -> Pending[bool] | None:
        """Read what a client that comes needs of the disk, in later turns; None if there is nothing to read."""
        if self._fault is not None:
            return None  # unknown; `begin` and `give_up` see to it
        session = self._table.held(clientid)
        if session is None or (isinstance(session, DurableSession) and session.has_lost and not clean_start):
            return self._lookups.begin(clientid, self._read_for_client(clientid, clean_start))
        return None

    def _read_for_client(self, clientid: str, clean_start: bool) -> Iterator[None]:
        if self._table.held(clientid) is None:
            yield from self._loader.read_session(clientid)
            self._counts["awoken"] += self._table.held(clientid) is not None
        session = self._table.held(clientid)
        if isinstance(session, DurableSession) and session.has_lost and not clean_start:
            yield from self._inflight.read(session)

    def awaken(self, clientid: str) -> Session | None:
        """Read a session that lies on the disk only."""
        if self._fault is not None:
            return None  # unknown; `begin` and `give_up` see to it
        try:
            session = self._loader.load(clientid)
        except StorageError as error:
            self._lookups.on_unreadable(clientid, error)
            detail = f"the session of {clientid!r} cannot be read now"
            raise ProtocolError(detail, rc.SERVER_UNAVAILABLE) from error
        if session is not None:
            self._counts["awoken"] += 1
        return session

    def begin(self, clientid: str) -> None:
        """A session begins: what is still on the disk of an earlier one goes."""
        if self._fault is not None:
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
        """A session in memory begins, of a client that may have another on the disk."""
        if self._fault is None:
            return
        if not clean_start or len(self._given_up) >= _GIVEN_UP_MAX:
            raise ProtocolError(f"whether {clientid!r} has a session cannot be read now", rc.SERVER_UNAVAILABLE)
        self._given_up[clientid] = None

    def end(self, session: Session) -> int:
        """A session ended; nothing of it is to be left."""
        clientid = session.clientid
        if isinstance(session, DurableSession):
            self._dirty.pop(session, None)
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
        return self._gather()

    def end_asleep(self, clientid: str) -> None:
        """A session that lies on the disk only is over."""
        self._scan.remove(clientid)

    def covers(self, topic_filter: str) -> bool:
        """Whether every message that a filter matches is stored."""
        return any(filter_covers(topics, topic_filter) for topics in self._topics)

    # --- what sessions say

    def save(self, session: Session) -> int:
        """Save a session as it is at the end of this turn."""
        if isinstance(session, DurableSession):
            self._dirty[session] = None
        return self._gather()

    def save_subscription(self, session: Session, name: str, subscription: Subscription, made_us: int) -> int:
        """Save a subscription."""
        key = record.subscription_key(session.clientid, name)
        self._journal.batch.put(key, record.encode_subscription(subscription, made_us, session.mountpoint))
        return self._gather()

    def forget_subscription(self, session: Session, name: str) -> int:
        """A subscription was dropped."""
        self._journal.batch.delete(record.subscription_key(session.clientid, name))
        return self._gather()

    def save_will(self, clientid: str, will: Will) -> int:
        """Save a will under its number."""
        self._wills.save(clientid, will)
        return self._gather()

    def forget_will(self, clientid: str, will: Will) -> None:
        """A will was taken back, or is published and stored."""
        self._wills.forget(clientid, will)
        self._gather()

    def take(self, session: Session, packet_id: int, message: int, id_high: int, id_low: int) -> int:
        """A QoS 2 message from the client was taken."""
        batch = self._journal.batch
        batch.put(record.taken_key(session.clientid, packet_id), record.encode_taken(message, id_high, id_low))
        if message:
            batch.put(record.taken_up_to_key(session.clientid), record.encode_pair(id_high, id_low))
        return self._gather()

    def taken_id(self, session: Session, packet_id: int) -> tuple[int, int] | None:
        """The id of the message that was taken under a packet identifier, if it is kept."""
        try:
            value = self._journal.get(record.taken_key(session.clientid, packet_id))
        except StorageError as error:
            detail = "whether it repeats a message that was taken before cannot be read now"
            raise ProtocolError(detail, refusal_code(error)) from error
        return None if value is None else record.decode_taken(value)[1:]

    def claim_orphan(self, session: Session, repetition: Repetition) -> tuple[int, int] | None:
        """The id of the message that a PUBLISH repeats, if a crash stored it without its packet identifier."""
        try:
            return claim_orphan(self._journal, session.clientid, repetition)
        except StorageError as error:
            detail = "whether it repeats a message that a crash interrupted cannot be read now"
            raise ProtocolError(detail, refusal_code(error)) from error

    def is_replaced(self, topic: str, id_high: int, id_low: int) -> bool:
        """Whether another retained message of a topic was stored after that of an id."""
        try:
            newest = newest_retained(self._messages, topic, id_high)
        except (UnknownStreamError, StorageDamagedError) as error:
            self._log.warn("whether a message of topic %.200r is to be retained is unknown: %s", topic, error)
            return True
        except StorageError as error:
            detail = f"whether it is the last retained message of {topic!r} cannot be read now"
            raise ProtocolError(detail, refusal_code(error)) from error
        return newest is not None and newest != (id_high, id_low)

    def release_taken(self, session: Session, packet_id: int) -> int:
        """The client released a message that was taken, or it was refused."""
        self._journal.batch.delete(record.taken_key(session.clientid, packet_id))
        return self._gather()

    def recall(self, session: Session) -> None:
        """Give a session that was read from the disk the messages back that are in flight."""
        if not isinstance(session, DurableSession):
            return
        try:
            self._inflight.give_back(session)
        except StorageError as error:
            self._lookups.on_unreadable(session.clientid, error)
            detail = f"what is in flight to {session.clientid!r} cannot be read now"
            raise ProtocolError(detail, rc.SERVER_UNAVAILABLE) from error

    def note(self, key: bytes, value: bytes | None) -> int:
        """Write or delete a record of another owner, in the next commit of session state."""
        if value is None:
            self._journal.batch.delete(key)
        else:
            self._journal.batch.put(key, value)
        return self._gather()

    def notes(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All such records whose keys have a prefix.

        Raises:
            StorageError: They cannot be read.
        """
        return self._journal.scan(prefix)

    def park(self, session: Session) -> None:
        """A session has more subscriptions to park than one turn takes."""
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
            self.faults.contain(SESSIONS, error)
        if self._parking:
            self._loop.call_soon(self._park_some)

    def want(self, session: Session) -> None:
        """A session is behind and takes messages: give it a turn."""
        if isinstance(session, DurableSession):
            self._replays.want(session)

    # --- what the node says

    def on_messages_committed(self, ticket: int, is_refused: bool = False) -> None:
        """A commit of messages is done, or refused."""
        if not is_refused:
            with suppress(StorageError):  # it had nothing to store, and the database cannot be read now
                self._newest_us = self._messages.newest_commit_us()
        self.answered(ticket, is_refused)
        self.release()
        self._heads.append((ticket, self._newest_us))
        self._unjoined.append((ticket, self._newest_us))
        self._follow()

    def on_joined(self, ticket: int) -> None:
        """All databases have what was tied to a ticket, or refused it: what was taken from clients is complete."""
        while self._unjoined and self._unjoined[0][0] <= ticket:
            self._whole = self._unjoined.popleft()

    def _follow(self) -> None:
        """Let the head follow the commits, up to the oldest message that has yet to be handed to a subscriber.

        A session that is behind would get it twice; one that leaves would count it as assigned.
        """
        heads, on_its_way = self._heads, self._broker.fanouts.oldest_ticket()
        moved = False
        while heads and not 0 < on_its_way <= heads[0][0]:
            self.head_ticket, self.head_us = heads.popleft()
            moved = True
        if moved:
            self._replays.on_committed(self.head_us, self.head_ticket)

    def tick(self, uptime_us: int) -> None:
        """Save the sessions that have moved on, so many at once."""
        self.health.tell(self._fault or self._journal.refusal)
        if self._fault is not None:
            if uptime_us >= self._retry_due_us:
                self._retry_due_us = uptime_us + _RETRY_US
                self.load()
            return
        if uptime_us < self._saves_due_us:
            return
        self._saves_due_us = uptime_us + int(self._settings.checkpoint_interval * 1_000_000)
        if self._complete_us != self._marked_us:
            self._mark()
        if not self._swept and uptime_us >= self._sweep_due_us:
            self._sweep_due_us = uptime_us + _SWEEP_US
            self._swept = self._table.all()
        self._sweep()
        self._save_touched()

    async def close(self) -> None:
        """Save everything and close the database of sessions."""
        self._scan.stop()
        self._lookups.stop()
        while self.touched:
            self._save_some(len(self.touched))
        if self._is_gathering:
            self._submit()
        await self._state.close()

    def statistics(self) -> dict[str, float]:
        """What replays have done, and what waits."""
        numbers: dict[str, float] = {f"durable_sessions.{name}": count for name, count in self._counts.items()}
        numbers.update(self._replays.statistics())
        numbers.update(self._journal.statistics())
        numbers.update(self._scan.statistics())
        numbers.update(self._lookups.statistics())
        numbers["durable_sessions.forgotten"] = self._inflight.forgotten_count
        numbers["durable_sessions.asleep"] = int(self._table.asleep_count)
        return numbers

    # --- saving

    def _gather(self) -> int:
        if not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self._submit)
        return self.gathering

    def _submit(self) -> None:
        if not self._is_gathering:
            return
        self._is_gathering = False
        batch = self._journal.batch
        for session in self._dirty:
            clientid = session.clientid
            try:
                value = record.encode_session(session, self._inflight.records.get(clientid, ()))
            except Exception as error:  # noqa: BLE001 - the state of the others is saved, whatever it is
                self.faults.contain(SESSIONS, error, session.abort)
                continue
            batch.put(record.session_key(clientid), value)
        self._dirty.clear()
        if self._marks:
            self._marks = False
            self._marked_us = self._complete_us
            batch.put(record.COMPLETE_UP_TO, record.encode_pair(self._marked_us, self._whole[0]))
        number: int = self.gathering
        self.gathering = number + 1
        self._journal.cut(number)

    def _on_saved(self, number: int) -> None:
        self.saved = number
        self.release()
        if self.on_saved is not None:
            self.faults.run(COMMITS, partial(self.on_saved, number))

    def _sweep(self) -> None:
        """Have cursors follow the head also where nothing is delivered that must be saved: replays then begin there.

        Sessions that have been away for long are let go from memory.
        """
        some, self._swept = self._swept[:_SAVED_PER_TURN], self._swept[_SAVED_PER_TURN:]
        slept_before_us = int(self._broker.now_us) - _SLEEP_US
        for session in some:
            if not isinstance(session, DurableSession) or self._table.held(session.clientid) is not session:
                continue
            if session.attached and not session.behind:
                session.touch()
            elif 0 < session.left_us < slept_before_us and self._journal.is_idle and session.may_sleep():
                self._counts["slept"] += 1
                self._inflight.forget(session)
                self._replays.end(session)
                self._table.let_sleep(session)

    def _save_touched(self) -> None:
        self._save_some(_SAVED_PER_TURN)
        if self.touched:
            self._loop.call_soon(self._save_touched)

    def _save_some(self, count: int) -> None:
        some, self.touched = self.touched[:count], self.touched[count:]
        for session in some:
            if isinstance(session, DurableSession):
                session.touched = False
                if self._table.held(session.clientid) is session:
                    self.save(session)

    def __repr__(self) -> str:
        return f"DurableSessions({len(self._table)} sessions, {self._replays})"


def refusal_code(error: StorageError) -> int:
    """The reason for a client that publishes while a disk fails."""
    return rc.QUOTA_EXCEEDED if isinstance(error, StorageFullError) else rc.UNSPECIFIED_ERROR
