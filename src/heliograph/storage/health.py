"""Whether something on a disk works now: one value, and the log line and alarm when it changes.

When a full disk is tried again is decided in `storage.store`; what publishers get meanwhile, in `node.refusals`.
"""

import logging
from collections.abc import Callable

from heliograph.observe.alarms import Alarms
from heliograph.storage.errors import StorageError


class Health:
    """Works, or why not; owned by what uses what it is about.

    A change is logged, begins or ends an alarm, and calls one function. What goes on is not reported again.

    Args:
        fails: What the log says when it fails, such as `delayed messages are refused`; empty for nothing.
        works: What the log says when it works again; empty for nothing.
        on_change: Called with the error, or None, before it is logged.
    """

    def __init__(
        self,
        log: logging.Logger,
        alarms: Alarms,
        alarm: str,
        fails: str,
        works: str,
        on_change: Callable[[StorageError | None], object] = lambda error: None,
    ) -> None:
        self.error: StorageError | None = None
        self._log = log
        self._alarms = alarms
        self._alarm = alarm
        self._fails = fails
        self._works = works
        self._on_change = on_change

    @property
    def is_good(self) -> bool:
        return self.error is None

    def tell(self, error: StorageError | None, fails: str = "") -> None:
        """Say how it went the last time."""
        was_good, self.error = self.is_good, error
        if was_good == self.is_good:
            return
        self._on_change(error)
        if error is not None:
            if message := fails or self._fails:
                self._log.error("%s [%s]: %s", message, error.code, error)
            self._alarms.activate(self._alarm, str(error), error.details())
            return
        if self._works:
            self._log.warning("%s", self._works)
        self._alarms.deactivate(self._alarm)

    def __str__(self) -> str:
        """Why it does not work; empty while it does."""
        return "" if self.error is None else str(self.error)

    def __repr__(self) -> str:
        return f"Health({self._alarm}: {self.error or 'good'})"
