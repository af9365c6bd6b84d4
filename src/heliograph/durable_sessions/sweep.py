"""What is done for all sessions in memory from time to time, some in each tick: cursors move, and sessions sleep."""

from typing import Final

from heliograph.durable_sessions.inflight import LostInflight
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.durable_sessions.replay_turns import Replays
from heliograph.session.durable import DurableSession
from heliograph.session.session import Session
from heliograph.session.table import SessionTable

_SWEPT_AT_ONCE: Final = 256
_SWEEP_US: Final = 60_000_000
_SLEEP_US: Final = 60_000_000  # how long a session stays in memory whose client is away


class SessionSweep:
    """Owned by `DurableSessions`."""

    def __init__(self, table: SessionTable, journal: SessionJournal, inflight: LostInflight, replays: Replays) -> None:
        self.slept_count = 0
        self._table = table
        self._journal = journal
        self._inflight = inflight
        self._replays = replays
        self._due_us = 0
        self._swept: list[Session] = []  # of the sweep that is under way

    def go_on(self, uptime_us: int) -> None:
        """Begin a sweep when one is due, and go on with it.

        Cursors follow the head also where nothing is delivered that must be saved: replays then begin there. Sessions
        that have been away for long are let go from memory.
        """
        if not self._swept and uptime_us >= self._due_us:
            self._due_us = uptime_us + _SWEEP_US
            self._swept = self._table.all()
        some, self._swept = self._swept[:_SWEPT_AT_ONCE], self._swept[_SWEPT_AT_ONCE:]
        pressure = self._table.broker.pressure
        slept_before_us = int(self._table.broker.now_us) - _SLEEP_US
        for session in some:
            if not isinstance(session, DurableSession) or self._table.held(session.clientid) is not session:
                continue
            if session.attached and not session.backlog.behind:
                session.backlog.touch()
            elif 0 < session.left_us < slept_before_us and self._journal.is_idle and session.may_sleep():
                if pressure.keeps_awake:
                    pressure.kept_awake += 1
                    continue
                self.slept_count += 1
                self._inflight.forget(session)
                self._replays.end(session)
                self._table.let_sleep(session)

    def __repr__(self) -> str:
        return f"SessionSweep({len(self._swept)} sessions left)"
