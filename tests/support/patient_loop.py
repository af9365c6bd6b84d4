"""An event loop whose clock does not count what a slow machine takes, and which a test moves on."""

import asyncio
import selectors
import time
from typing import Final

_WORK_S_MAX: Final = 0.01


class _PatientSelector(selectors.EpollSelector):
    """Counts the time that its loop waits, as far as it was to, and of each turn a hundredth of a second at most."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = time.monotonic()
        self._began = self.waited_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        before = time.monotonic()
        self.waited_s += min(before - self._began, _WORK_S_MAX)
        events = super().select(timeout)
        self._began = time.monotonic()
        took = self._began - before
        self.waited_s += took if timeout is None else min(took, max(timeout, 0.0))
        return events


class PatientLoop(asyncio.SelectorEventLoop):
    """Time passes while it has nothing to do: no deadline of the code under test ends because a machine is slow."""

    def __init__(self) -> None:
        self._patience = _PatientSelector()
        super().__init__(self._patience)

    def time(self) -> float:
        """Seconds that it has waited, and worked for, since some time."""
        return self._patience.waited_s

    def advance(self, seconds: float) -> None:
        """Let time pass at once: what is due by then happens in the next turn."""
        self._patience.waited_s += seconds
