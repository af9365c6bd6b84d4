"""Sessions that have ended and still have subscriptions: dropping a hundred thousand takes more than a turn."""

from typing import Final

from heliograph.broker.faults import SESSIONS, Faults
from heliograph.session.session import Session

# Each costs one to some microseconds, and no turn may take long.
_SUBSCRIPTIONS_AT_ONCE: Final = 10_000


class EndingSessions:
    """Those of a node; owned by the session table."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._left: list[Session] = []

    def add(self, session: Session) -> None:
        if not self._drop(session):
            self._left.append(session)

    def go_on(self) -> None:
        if self._left:
            self.add(self._left.pop())

    def _drop(self, session: Session) -> bool:
        try:
            return session.drop_subscriptions(_SUBSCRIPTIONS_AT_ONCE)
        except Exception as error:  # noqa: BLE001 - its other subscriptions are dropped too, whatever it is
            self._faults.contain(SESSIONS, error)
        return not session.subscriptions
