"""Durable sessions of a node: reads them at the start, saves what changes, and replays what they have missed.

`session.durable` knows what a durable session is, docs/durable_sessions.md what waits for what.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import Subscription
from heliograph.config import Config
from heliograph.config.contradictions import DEFAULT_ZONE
from heliograph.config.sessions import DurableSessionsConfig
from heliograph.mqtt.packets import Publish
from heliograph.node import session_record as record
from heliograph.node.options import channel_options
from heliograph.node.session_journal import SessionJournal
from heliograph.node.session_loading import SessionLoader, recalled
from heliograph.node.session_replay import ReplayedDatabase
from heliograph.node.session_replays import Loop, Replays
from heliograph.node.session_taken import TakenRecords
from heliograph.session.durability import Durability
from heliograph.session.durable import DurableSession
from heliograph.session.options import SessionOptions
from heliograph.session.session import Session
from heliograph.session.table import SessionTable
from heliograph.storage.errors import StorageError
from heliograph.storage.local_state import LocalState
from heliograph.storage.state import StateBatch, StateDatabase

_log = logging.getLogger(__name__)

_PAGE: Final = 1024
_SAVED_PER_TURN: Final = 256
_SWEEP_US: Final = 60_000_000


class MessageDatabase(ReplayedDatabase, Protocol):
    """What is asked of the database of messages."""

    def statistics(self) -> dict[str, int]:
        """Its `last_commit_us` is the time of the newest commit."""


class DurableSessions(Durability):
    """Every durable session of a node; owned by the node, in whose event loop it lives.

    Args:
        messages: The database of messages; may be out of order.
        state: The database of sessions.
        begin_turn: Tells the broker the time; called when the loop calls.
    """

    def __init__(
        self,
        settings: DurableSessionsConfig,
        messages: MessageDatabase,
        state: StateDatabase,
        table: SessionTable,
        broker: Broker,
        loop: Loop,
        begin_turn: Callable[[], object],
    ) -> None:
        super().__init__()
        self._settings = settings
        self._messages = messages
        self._state = state
        self._table = table
        self._broker = broker
        self._loop = loop
        self._begin_turn = begin_turn
        self._journal = SessionJournal(state, self._on_saved, loop.call_later)
        self._batch = StateBatch()
        self._dirty: dict[DurableSession, None] = {}
        self._is_gathering = False
        self._marks = False  # whether the next batch says up to when all identifiers are in it
        self._marked_us: int = -1
        self._lost: dict[str, list[record.Inflight]] = {}  # of sessions whose client has not come yet
        self._replays = Replays(messages, settings.batch_size, loop, begin_turn)
        self._saves_due_us = 0
        self._sweep_due_us = 0
        self._idle: list[Session] = []  # of the sweep that is under way
        self._counts = {"forgotten": 0}

    # --- the start

    def load(self, options: SessionOptions) -> int:
        """Read every session; how many there are. Those whose time is over are forgotten.

        Raises:
            StorageError: The database of sessions cannot be read.
        """
        self.head_us = self._messages.statistics()["last_commit_us"]
        self._replays.on_committed(self.head_us, self.committed)
        loader = SessionLoader(self._table, self, options)
        for key, value in self._scan(record.SESSION):
            if not loader.load_session(key, value, self._lost):
                self._counts["forgotten"] += 1
                self._delete(key[1:].decode())
        for key, value in self._scan(record.SUBSCRIPTION):
            loader.load_subscription(key, value)
        try:
            TakenRecords(self._messages, self._state, self._batch, self._scan).load(loader.find, self._broker.uptime_us)
        except StorageError as error:
            _log.error("QoS 2 messages that were under way in a crash may be published twice: %s", error)
        self._mark()
        self._table.durability = self
        return len(self._table)

    def _scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        after = b""
        while True:
            page = self._state.scan(prefix, after, _PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def _mark(self) -> None:
        """Say how far the packet identifiers of what is stored are complete: a start looks no further back."""
        self._marks = True
        self._gather()

    # --- what sessions say

    def save(self, session: Session) -> int:
        """Save a session as it is at the end of this turn."""
        if isinstance(session, DurableSession):
            self._dirty[session] = None
        return self._gather()

    def save_subscription(self, session: Session, name: str, subscription: Subscription, made_us: int) -> int:
        """Save a subscription."""
        key = record.subscription_key(session.clientid, name)
        self._batch.put(key, record.encode_subscription(subscription, made_us))
        return self._gather()

    def forget_subscription(self, session: Session, name: str) -> int:
        """A subscription was dropped."""
        self._batch.delete(record.subscription_key(session.clientid, name))
        return self._gather()

    def take(self, session: Session, packet_id: int, message: int, id_high: int, id_low: int) -> int:
        """A QoS 2 message from the client was taken."""
        key = record.taken_key(session.clientid, packet_id)
        self._batch.put(key, record.encode_taken(message, id_high, id_low))
        if id_low:
            self._batch.put(record.taken_up_to_key(session.clientid), record.encode_pair(id_high, id_low))
        return self._gather()

    def claim_orphan(self, session: Session, publish: Publish) -> bool:
        """Whether a PUBLISH repeats a message that a crash stored without its packet identifier."""
        key = record.orphan_key(session.clientid, publish.topic, publish.payload, publish.property_bytes)
        value = self._batch.changes[key] if key in self._batch.changes else self._state.get(key)
        if value is None:
            return False
        count = int(value)
        if count > 1:
            self._batch.put(key, b"%d" % (count - 1))
        else:
            self._batch.delete(key)
        return True

    def release_taken(self, session: Session, packet_id: int) -> int:
        """The client released a message that was taken, or it was refused."""
        self._batch.delete(record.taken_key(session.clientid, packet_id))
        return self._gather()

    def end(self, session: Session) -> int:
        """A session ended; nothing of it is to be left."""
        if isinstance(session, DurableSession):
            self._dirty.pop(session, None)
            self._replays.end(session)
        self._lost.pop(session.clientid, None)
        self._delete(session.clientid)
        return self._gather()

    def recall(self, session: Session) -> None:
        """Give a session that was read from the disk the messages back that are in flight."""
        lost = self._lost.pop(session.clientid, [])
        if not isinstance(session, DurableSession):
            return
        for one in lost:
            delivery = recalled(self._messages, session, one)
            if delivery is None:
                self._counts["forgotten"] += 1
            else:
                session.restore_inflight(one.packet_id, delivery)

    def want(self, session: Session) -> None:
        """A session is behind and takes messages: give it a turn."""
        if isinstance(session, DurableSession):
            self._replays.want(session)

    # --- what the node says

    def on_messages_committed(self, ticket: int) -> None:
        """A commit of messages is done, or refused."""
        self.head_us = self._messages.statistics()["last_commit_us"]
        self.committed = ticket
        self.release()
        self._replays.on_committed(self.head_us, ticket)

    def tick(self, uptime_us: int) -> None:
        """Save the sessions that have moved on, so many at once."""
        if uptime_us < self._saves_due_us:
            return
        self._saves_due_us = uptime_us + int(self._settings.checkpoint_interval * 1_000_000)
        if self.head_us != self._marked_us:
            self._mark()
        if not self._idle and uptime_us >= self._sweep_due_us:
            self._sweep_due_us = uptime_us + _SWEEP_US
            self._idle = self._table.all()
        self._touch_idle()
        self._save_touched()

    async def close(self) -> None:
        """Save everything and close the database of sessions."""
        while self.touched:
            self._save_some(len(self.touched))
        if self._is_gathering:
            self._submit()
        await self._state.close()

    def statistics(self) -> dict[str, int]:
        """What replays have done, and what waits."""
        numbers = {f"durable_sessions.{name}": count for name, count in self._counts.items()}
        numbers.update(self._replays.statistics())
        numbers.update(self._journal.statistics())
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
        batch, self._batch = self._batch, StateBatch()
        for session in self._dirty:
            clientid = session.clientid
            batch.put(record.session_key(clientid), record.encode_session(session, self._lost.get(clientid, ())))
        self._dirty.clear()
        if self._marks:
            self._marks = False
            self._marked_us = self.head_us
            batch.put(record.COMPLETE_UP_TO, record.encode_pair(self.head_us, self.committed))
        number: int = self.gathering
        self.gathering = number + 1
        self._journal.submit(number, batch)

    def _on_saved(self, number: int) -> None:
        self.saved = number
        self.release()

    def _delete(self, clientid: str) -> None:
        batch = self._batch
        batch.delete(record.session_key(clientid))
        batch.delete(record.taken_up_to_key(clientid))
        batch.delete_prefix(record.subscription_key(clientid, ""))
        batch.delete_prefix(record.taken_prefix(clientid))
        batch.delete_prefix(record.orphan_prefix(clientid))

    def _touch_idle(self) -> None:
        """Have cursors follow the head also where nothing is delivered that must be saved: replays then begin there."""
        some, self._idle = self._idle[:_SAVED_PER_TURN], self._idle[_SAVED_PER_TURN:]
        for session in some:
            if isinstance(session, DurableSession) and session.attached and not session.behind:
                session.touch()

    def _save_touched(self) -> None:
        self._save_some(_SAVED_PER_TURN)
        if self.touched:
            self._loop.call_soon(self._save_touched)

    def _save_some(self, count: int) -> None:
        some, self.touched = self.touched[:count], self.touched[count:]
        for session in some:
            if isinstance(session, DurableSession):
                session.touched = False
                if self._table.find(session.clientid) is session:
                    self.save(session)

    def __repr__(self) -> str:
        return f"DurableSessions({len(self._table)} sessions, {self._replays})"


def open_sessions(
    config: Config, data_dir: Path, messages: MessageDatabase, table: SessionTable, begin_turn: Callable[[], object]
) -> DurableSessions | None:
    """Read the sessions of a node, and keep them from now on; None where they are not to be kept, or cannot be.

    Args:
        messages: The database of messages, which what they have missed is replayed from.
    """
    settings = config.durable_sessions
    if not settings.enable:
        return None
    own = config.durable_storage.sessions
    state = LocalState(data_dir, "sessions", fsync=own.fsync, max_buffered_bytes=own.max_buffered_bytes)
    try:
        state.open()
        sessions = DurableSessions(
            settings, messages, state, table, table.broker, asyncio.get_running_loop(), begin_turn
        )
        count = sessions.load(channel_options(config, DEFAULT_ZONE, "").session)
    except StorageError as error:
        _log.error(
            "the database of sessions cannot be read [%s]: %s Sessions are kept in memory until the next start, which "
            "may bring back what clients have given up meanwhile",
            error.code,
            error,
        )
        return None
    if count:
        _log.info("%d sessions were read", count)
    return sessions
