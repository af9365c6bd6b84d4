"""Schedules replays: sessions that are behind take turns, and each turn of the event loop is bounded."""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from heliograph.broker.faults import TURNS, Faults
from heliograph.durable_sessions.replay import Loss, Replay, ReplayedDatabase, ReplayOutcome
from heliograph.observe.alarms import UNTIL_START, Alarms
from heliograph.observe.bounded_log import BoundedLog
from heliograph.parts.loop import Loop
from heliograph.session.durable import DurableSession
from heliograph.storage.columnar.offloaded import OffloadError, OffloadPendingError
from heliograph.storage.errors import StorageError

_log = logging.getLogger(__name__)

# What all replays do between two writes of the outboxes, in messages: 2 to 4 ms.
_REPLAYED_PER_TURN: Final = 512
_RETRY_S: Final = 1.0
_DAMAGE_ALARM: Final = "durable_sessions_damaged"
_FETCHED_S: Final = 0.01  # until what was offloaded is looked for again


class Replays:
    """The replays of a node; owned by `DurableSessions`."""

    def __init__(
        self,
        messages: ReplayedDatabase,
        batch_size: int,
        loop: Loop,
        begin_turn: Callable[[], object],
        faults: Faults,
        alarms: Alarms,
    ) -> None:
        self._faults = faults
        self._messages = messages
        self.batch_size = batch_size
        self._loop = loop
        self._begin_turn = begin_turn
        self._head_us = 0
        self._committed = 0
        self._wanting: deque[DurableSession] = deque()
        self._replays: dict[DurableSession, Replay] = {}
        self._awaiting_commit: list[DurableSession] = []
        self._is_scheduled = False
        self._alarms = alarms
        self._log = BoundedLog(_log, lambda: int(time.monotonic_ns() // 1000))
        self._counts = {"replayed": 0, "damaged_streams": 0, "dropped_backlogs": 0, "replay_errors": 0}

    def want(self, session: DurableSession) -> None:
        if session.backlog.wanted:
            return
        session.backlog.wanted = True
        self._wanting.append(session)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def end(self, session: DurableSession) -> None:
        self._replays.pop(session, None)

    def on_committed(self, head_us: int, ticket: int) -> None:
        self._head_us = head_us
        self._committed = ticket
        waiting, self._awaiting_commit = self._awaiting_commit, []
        for session in waiting:
            if session.attached:
                self.want(session)

    def statistics(self) -> dict[str, int]:
        numbers = {f"durable_sessions.{name}": count for name, count in self._counts.items()}
        numbers["durable_sessions.replaying"] = len(self._replays)
        return numbers

    def _run(self) -> None:
        self._begin_turn()
        left = _REPLAYED_PER_TURN
        try:
            while self._wanting and left > 0:
                session = self._wanting.popleft()
                try:
                    left -= self._replay(session, min(self.batch_size, left))
                except Exception as error:  # noqa: BLE001 - the others have their turns, whatever it is
                    left -= 1
                    self._replays.pop(session, None)
                    self._faults.contain(TURNS, error, session.abort)
        finally:
            self._is_scheduled = bool(self._wanting)
            if self._is_scheduled:
                self._loop.call_soon(self._run)

    def _replay(self, session: DurableSession, cost_max: int) -> int:
        session.backlog.wanted = False
        if not session.attached or not session.backlog.behind:
            self._replays.pop(session, None)
            return 1
        replay = self._replays.get(session)
        if replay is None:
            replay = self._replays[session] = Replay(self._messages, session, self._on_loss)
        try:
            outcome = replay.turn(self._head_us, self._committed, cost_max)
        except OffloadError as error:
            delay_s = _FETCHED_S if isinstance(error, OffloadPendingError) else _RETRY_S
            self._want_later(session, delay_s)
            return replay.cost + 1
        except StorageError as error:
            self._counts["replay_errors"] += 1
            self._log.warn("the replay for client %.200r waits [%s]: %s", session.clientid, error.code, error)
            del self._replays[session]
            session.backlog.on_interrupted()
            self._want_later(session, _RETRY_S)
            return replay.cost + 1
        self._counts["replayed"] += replay.given_count
        replay.given_count = 0
        if outcome is ReplayOutcome.MORE:
            self.want(session)
        elif outcome is ReplayOutcome.AWAITS_COMMIT:
            self._awaiting_commit.append(session)
        elif outcome is ReplayOutcome.LIVE:
            self._replays.pop(session, None)
        return replay.cost + 1

    def _want_later(self, session: DurableSession, delay_s: float) -> None:
        """Give a session a turn after so many seconds, and none before."""

        def want() -> None:
            session.backlog.wanted = False
            self.want(session)

        session.backlog.wanted = True
        self._loop.call_later(delay_s, want)

    def _on_loss(self, session: DurableSession, loss: Loss) -> None:
        """A session will never get something: count it and say so."""
        self._counts["damaged_streams" if loss.is_damage else "dropped_backlogs"] += 1
        self._log.warn(
            "client %.200r missed what was stored in %s from %d to %d (us since the epoch): %s",
            session.clientid,
            loss.where,
            loss.since,
            loss.until,
            loss.why,
        )
        if loss.is_damage:
            details = {"client": session.clientid, "stream": loss.where, "since": loss.since, "until": loss.until}
            text = f"replays leave out what is damaged: {loss.why}. {UNTIL_START}"
            self._alarms.activate(_DAMAGE_ALARM, text, details)

    def __repr__(self) -> str:
        return f"Replays({len(self._replays)} sessions, {len(self._wanting)} wait for their turn)"
