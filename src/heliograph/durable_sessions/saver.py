"""Gathering session state: what changes in one turn of the event loop is one batch of the journal."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from heliograph.broker.faults import COMMITS, SESSIONS
from heliograph.durable_sessions import record
from heliograph.durable_sessions.head import CommitHead
from heliograph.durable_sessions.inflight import LostInflight
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.parts.loop import Loop
from heliograph.session.durability import Durability
from heliograph.session.durable import DurableSession
from heliograph.session.table import SessionTable
from heliograph.storage.state.interface import StateDatabase

_SAVED_PER_TURN: Final = 256


class SessionSaver:
    """Saves the sessions of a node; owned by `DurableSessions`."""

    def __init__(
        self,
        durability: Durability,
        state: StateDatabase,
        table: SessionTable,
        inflight: LostInflight,
        head: CommitHead,
        loop: Loop,
    ) -> None:
        self.journal = SessionJournal(state, self._on_saved, loop.call_later)
        self.on_saved: Callable[[int], object] | None = None
        self._durability = durability
        self._table = table
        self._inflight = inflight
        self._head = head
        self._loop = loop
        self._dirty: dict[DurableSession, None] = {}
        self._is_gathering = False
        self._marks = False  # whether the next batch says up to when all identifiers are in it
        self._marked_us = -1

    # --- what changes

    def gather(self) -> int:
        """The batch of this turn has changed: its ticket."""
        if not self._is_gathering:
            self._is_gathering = True
            self._loop.call_soon(self._submit)
        return self._durability.gathering

    def save(self, session: DurableSession) -> int:
        self._dirty[session] = None
        return self.gather()

    def forget(self, session: DurableSession) -> None:
        self._dirty.pop(session, None)

    def mark(self) -> None:
        """Say how far the packet identifiers of what is stored are complete: a start looks no further back."""
        self._marks = True
        self.gather()

    def note(self, key: bytes, value: bytes | None) -> int:
        """Keep a record of another owner, or delete it, in the batch of this turn."""
        if value is None:
            self.journal.batch.delete(key)
        else:
            self.journal.batch.put(key, value)
        return self.gather()

    def notes(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All such records whose keys have a prefix."""
        return self.journal.scan(prefix)

    # --- some time later

    def checkpoint(self) -> None:
        """Save the sessions that have moved on, so many in a turn, and how far everything is complete."""
        if self._head.complete[0] != self._marked_us:
            self.mark()
        self._save_touched()

    def save_now(self) -> None:
        while self._durability.touched:
            self._save_some(len(self._durability.touched))
        self._submit()

    def _save_touched(self) -> None:
        self._save_some(_SAVED_PER_TURN)
        if self._durability.touched:
            self._loop.call_soon(self._save_touched)

    def _save_some(self, count: int) -> None:
        touched = self._durability.touched
        some, self._durability.touched = touched[:count], touched[count:]
        for session in some:
            if isinstance(session, DurableSession):
                session.backlog.touched = False
                if self._table.held(session.clientid) is session:
                    self.save(session)

    # --- the batch

    def _submit(self) -> None:
        if not self._is_gathering:
            return
        self._is_gathering = False
        batch = self.journal.batch
        for session in self._dirty:
            clientid = session.clientid
            try:
                value = record.encode_session(session, self._inflight.records.get(clientid, ()))
            except Exception as error:  # noqa: BLE001 - the state of the others is saved, whatever it is
                self._durability.faults.contain(SESSIONS, error, session.abort)
                continue
            batch.put(record.session_key(clientid), value)
        self._dirty.clear()
        if self._marks:
            self._marks = False
            self._marked_us, ticket = self._head.complete
            batch.put(record.COMPLETE_UP_TO, record.encode_pair(self._marked_us, ticket))
        number: int = self._durability.gathering
        self._durability.gathering = number + 1
        self.journal.cut(number)

    def _on_saved(self, number: int) -> None:
        self._durability.saved = number
        self._durability.release()
        if self.on_saved is not None:
            self._durability.faults.run(COMMITS, partial(self.on_saved, number))

    def __repr__(self) -> str:
        return f"SessionSaver({len(self._dirty)} sessions in this turn, {len(self._durability.touched)} later)"
