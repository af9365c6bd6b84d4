"""What a start of the node reads of durable sessions at once, tried again and again until that works.

At once are read wills, and the sessions that must be awake to get what is not stored; most sessions are read when their
clients come. Until all that is known, clients with durable sessions are refused.
"""

import logging
from contextlib import suppress
from typing import Final

from heliograph.durable_sessions import record
from heliograph.durable_sessions.coverage import Coverage
from heliograph.durable_sessions.head import CommitHead
from heliograph.durable_sessions.loading import SessionLoader
from heliograph.durable_sessions.replay import ReplayedDatabase
from heliograph.durable_sessions.saver import SessionSaver
from heliograph.durable_sessions.scan import SessionScan
from heliograph.durable_sessions.taken import TakenRecords
from heliograph.durable_sessions.wills import SavedWills
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.durability import Durability
from heliograph.session.table import SessionTable
from heliograph.storage.errors import StorageError

_log = logging.getLogger(__name__)

_RETRY_US: Final = 1_000_000
_GIVEN_UP_MAX: Final = 100_000


class SessionStart:
    """What a start reads of durable sessions; owned by `DurableSessions`."""

    def __init__(
        self,
        durability: Durability,
        coverage: Coverage,
        messages: ReplayedDatabase,
        table: SessionTable,
        head: CommitHead,
        saver: SessionSaver,
        loader: SessionLoader,
        scan: SessionScan,
        wills: SavedWills,
    ) -> None:
        self.fault: StorageError | None = None
        self._durability = durability
        self._coverage = coverage
        self._messages = messages
        self._table = table
        self._head = head
        self._saver = saver
        self._loader = loader
        self._scan = scan
        self._wills = wills
        self._given_up: dict[str, None] = {}  # clients that gave a session up meanwhile, if they had one
        self._retry_due_us = 0
        self._is_right = False  # what a crash left of QoS 2 messages was put right

    @property
    def is_done(self) -> bool:
        """True once the index on the disk is read; most of it is loaded later."""
        return self.fault is None and self._table.durability is self._durability

    def load(self) -> None:
        """Put right what a crash left, and keep sessions from now on."""
        self._table.keep_in(self._durability)
        try:
            self._load()
        except StorageError as error:
            if self.fault is None:
                _log.error("durable sessions cannot be read, and clients have to wait [%s]: %s", error.code, error)
            self.fault = error
            return
        if self.fault is not None:
            _log.warning("durable sessions can be read again")
        self.fault = None
        self._saver.mark()
        self._scan.begin()

    def on_discovered(self) -> None:
        """Every session on the disk is known, some time later."""
        self._durability.knows_all = True
        if len(self._table):
            _log.info("sessions that are known: %d", len(self._table))

    def retry(self, uptime_us: int) -> None:
        if uptime_us >= self._retry_due_us:
            self._retry_due_us = uptime_us + _RETRY_US
            self.load()

    def give_up(self, clientid: str, clean_start: bool) -> None:
        if self.fault is None:
            return
        if not clean_start or len(self._given_up) >= _GIVEN_UP_MAX:
            raise ProtocolError(f"whether {clientid!r} has a session cannot be read now", rc.SERVER_UNAVAILABLE)
        self._given_up[clientid] = None

    def _load(self) -> None:
        """All that may fail comes first, or may be done again."""
        self._head.begin()
        for clientid in list(self._given_up):
            self._scan.remove_now(clientid)
            del self._given_up[clientid]
        if not self._is_right:
            self._put_right()
        subscriptions = 0
        awake: dict[str, None] = {}
        for key, value in self._saver.journal.scan(record.SUBSCRIPTION):
            subscriptions += 1
            if record.is_open(value):
                self._close(key, value)
            clientid, name = record.owner(key)
            if not self._coverage.can_sleep(name.decode(), value):
                awake[clientid] = None
        wills = self._wills.load()
        for clientid in dict(wills):
            self._scan.discover(clientid)
        for clientid in awake:
            if self._table.held(clientid) is None:
                self._loader.load(clientid)
        self._table.broker.router.parked_count += subscriptions
        for clientid, will in wills:
            self._table.restore_will(clientid, will)

    def _close(self, key: bytes, value: bytes) -> None:
        """What is stored from now on is not older than a subscription of an earlier run, whatever the clock says."""
        with suppress(ValueError):  # one that cannot be read is reported when its client comes
            self._saver.journal.batch.put(key, record.closed(value, int(self._durability.head_us)))

    def _put_right(self) -> None:
        if self._saver.journal.get(record.COMPLETE_UP_TO) is not None:
            try:
                TakenRecords(self._messages, self._saver.journal).put_right()
            except StorageError as error:
                _log.error("QoS 2 messages that were under way in a crash may be published twice: %s", error)
        self._is_right = True

    def __repr__(self) -> str:
        return f"SessionStart({self.fault or 'done'})"
