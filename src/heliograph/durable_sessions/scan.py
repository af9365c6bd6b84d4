"""Finds the sessions that are on the disk only, in the background, and ends those that have expired.

A start does not read sessions: with a hundred thousand of them clients would wait. They are discovered afterwards, a
page in each turn of the event loop, and what belongs to no session is removed. The session of a client that comes
meanwhile is read at once.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from heliograph.broker.router import Router
from heliograph.durable_sessions import record
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.durable_sessions.loading import SessionLoader, is_over
from heliograph.parts.loop import Loop
from heliograph.session.durable import DurableSession
from heliograph.session.table import SessionTable
from heliograph.storage.errors import StorageError

_log = logging.getLogger(__name__)

_REMOVED_AT_ONCE: Final = 16  # sessions; each is looked for in some places
_RETRY_S: Final = 1.0
_KINDS: Final = (record.SUBSCRIPTION, record.TAKEN, record.TAKEN_UP_TO, record.ORPHAN)


class SessionScan:
    """The sessions that are discovered; owned by `DurableSessions`. `on_met` is called when all are."""

    def __init__(
        self,
        table: SessionTable,
        journal: SessionJournal,
        loader: SessionLoader,
        loop: Loop,
        gather: Callable[[], object],
        on_discovered: Callable[[], None],
    ) -> None:
        self._table = table
        self._journal = journal
        self._loader = loader
        self._loop = loop
        self._gather = gather
        self._on_discovered = on_discovered
        self._steps: Iterator[None] | None = None
        self._over: dict[str, None] = {}  # clients whose sessions are over and still on the disk
        self._unread: set[str] = set()  # clients whose sessions cannot be understood, and are left alone
        self._is_scheduled = False
        self._is_stopped = False
        self._counts = {"discovered": 0, "expired": 0, "orphaned": 0, "removed": 0}

    def begin(self) -> None:
        """Discover every session, from the next turn on."""
        self._steps = self._scan()
        self._schedule()

    def discover(self, clientid: str) -> None:
        """Discover one session now."""
        value = self._journal.get(record.session_key(clientid))
        if value is not None:
            self._discover(clientid, value)

    def remove(self, clientid: str) -> None:
        """Remove, some time, all records of a client that has no session any more."""
        self._over[clientid] = None
        self._schedule()

    def keeps(self, clientid: str) -> bool:
        """Whether the disk may have something of a client without a session; known when all were discovered."""
        return clientid in self._over or clientid in self._unread

    def remove_now(self, clientid: str) -> None:
        """Remove all records of a client in this turn's batch."""
        batch = self._journal.batch
        subscriptions = [key for key, _ in self._journal.scan(record.subscription_key(clientid, ""))]
        others = [
            key
            for prefix in (record.taken_prefix(clientid), record.orphan_prefix(clientid))
            for key, _ in self._journal.scan(prefix)
        ]
        for key in (*subscriptions, *others, record.session_key(clientid), record.taken_up_to_key(clientid)):
            batch.delete(key)
        self._unread.discard(clientid)
        router: Router = self._table.broker.router
        router.parked_count -= len(subscriptions)
        self._counts["removed"] += 1
        self._gather()

    def stop(self) -> None:
        self._is_stopped = True

    def statistics(self) -> dict[str, int]:
        numbers = {f"durable_sessions.{name}": count for name, count in self._counts.items()}
        numbers["durable_sessions.to_remove"] = len(self._over)
        return numbers

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_stopped:
            self._is_scheduled = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._is_scheduled = False
        if self._is_stopped:
            return
        try:
            if self._steps is not None and next(self._steps, self) is self:
                self._steps = None
            self._remove_some()
        except StorageError as error:
            _log.warning("the sessions on the disk cannot be looked through now [%s]: %s", error.code, error)
            if self._steps is not None:
                self._steps = self._scan()  # what was discovered already is passed over
            self._is_scheduled = True
            self._loop.call_later(_RETRY_S, self._step)
            return
        if self._steps is not None or self._over:
            self._schedule()

    def _scan(self) -> Iterator[None]:
        for page in self._journal.pages(record.SESSION):
            for key, value in page:
                self._discover(key[1:].decode(), value)
            yield
        self._on_discovered()
        for kind in _KINDS:
            last = ""
            for page in self._journal.pages(kind):
                for key, _ in page:
                    clientid = record.owner(key)[0]
                    if clientid != last and self._is_ownerless(clientid):
                        self._counts["orphaned"] += clientid not in self._over
                        self._over[clientid] = None
                    last = clientid
                yield

    def _discover(self, clientid: str, value: bytes) -> None:
        self._counts["discovered"] += 1
        if self._table.knows(clientid):
            return
        saved = self._loader.read(clientid, value)
        if saved is None:  # left alone until its client comes: a later version may have written it
            self._unread.add(clientid)
            return
        now_us = int(self._table.broker.now_us)
        if is_over(saved, now_us):
            self._counts["expired"] += 1
            self._over[clientid] = None
            return
        self._table.doze(clientid, saved.expiry_s, max(0, now_us - saved.left_us))
        if saved.left_us == self._loader.began_us:
            self._journal.batch.put(record.session_key(clientid), record.with_left(value, saved.left_us))
            self._gather()

    def _is_ownerless(self, clientid: str) -> bool:
        return not self._table.knows(clientid) and self._journal.get(record.session_key(clientid)) is None

    def _remove_some(self) -> None:
        """Remove some sessions that are over, unless clients have begun new ones on the disk meanwhile."""
        for clientid in list(islice(self._over, _REMOVED_AT_ONCE)):
            session = self._table.held(clientid)
            in_memory_only = session is not None and not isinstance(session, DurableSession)
            if in_memory_only or not self._table.knows(clientid):
                self.remove_now(clientid)
            del self._over[clientid]

    def __repr__(self) -> str:
        return f"SessionScan({self._counts}, {len(self._over)} to remove)"
