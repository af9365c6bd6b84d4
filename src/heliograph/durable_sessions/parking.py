"""Parking the subscriptions of sessions that have more of them than one turn takes."""

from collections import deque

from heliograph.broker.faults import SESSIONS, Faults
from heliograph.parts.loop import Loop
from heliograph.session.durable import DurableSession


class Parking:
    """The sessions that take turns at it; owned by `DurableSessions`."""

    def __init__(self, loop: Loop, faults: Faults) -> None:
        self._loop = loop
        self._faults = faults
        self._sessions: deque[DurableSession] = deque()

    def add(self, session: DurableSession) -> None:
        self._sessions.append(session)
        if len(self._sessions) == 1:
            self._loop.call_soon(self._park_some)

    def _park_some(self) -> None:
        session = self._sessions.popleft()
        try:
            if not session.park_some():
                self._sessions.append(session)
        except Exception as error:  # noqa: BLE001 - the others are parked too, whatever it is
            self._faults.contain(SESSIONS, error)
        if self._sessions:
            self._loop.call_soon(self._park_some)

    def __repr__(self) -> str:
        return f"Parking({len(self._sessions)} sessions)"
