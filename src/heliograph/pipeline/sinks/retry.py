"""Trying again what failed for a reason that passes: how often, with which pauses, for how long.

A sink tries a while by itself, because a lost connection or a deadlock is over in a moment and the batch need not be
computed again. After that `SinkError` goes to the driver, which shows it and runs the batch again with longer pauses.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from heliograph.pipeline.errors import SinkError
from heliograph.processes.backoff import Backoff
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Duration, Integer

_Result = TypeVar("_Result")


class TransientError(Exception):
    """The target may take it when tried again, after a pause that it asks for. It ends as `SinkError`.

    Args:
        has_progressed: Whether it has taken a part meanwhile: such a try counts as the first.
    """

    def __init__(self, text: str, pause_s: float | None = None, *, has_progressed: bool = False) -> None:
        super().__init__(text)
        self.pause_s = pause_s
        self.has_progressed = has_progressed


class SuspectRowsError(SinkError):
    """The target refuses all rows of a batch, for what may be a fault of the rows, or of the login that they share.

    Rows that it takes beside them would tell; an engine may bring such a batch again with rows behind it.
    """


@dataclass(frozen=True)
class RetryPolicy:
    attempts: int = setting(Integer(1, 100), 5, "How often at most, with the first.")
    first_pause_s: float = setting(
        Duration(needs_unit=True), 0.2, "Pause after the first failure; it doubles with each.", name="first_pause"
    )
    longest_pause_s: float = setting(Duration(needs_unit=True), 10.0, "Where it stops doubling.", name="longest_pause")
    deadline_s: float = setting(
        Duration(needs_unit=True), 60.0, "How long after the first attempt another may begin.", name="deadline"
    )

    def pause_s(self, failures: int) -> float:
        return Backoff(self.first_pause_s, self.longest_pause_s).pause_s(failures)


class Attempts:
    """Runs one thing until it goes well or the policy ends; it counts how often it was tried again.

    Args:
        tell: Called with each failure after which it is tried again, and with None when it then went well.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        tell: Callable[[str | None], object] = lambda error: None,
    ) -> None:
        self.retries = 0
        self._policy = policy
        self._tell = tell
        self._clock = clock
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"Attempts({self._policy}, retries={self.retries})"

    def run(self, action: Callable[[], _Result]) -> _Result:
        last_start = self._clock() + self._policy.deadline_s
        failures = 0
        while True:
            try:
                result = action()
            except TransientError as error:
                if error.has_progressed:
                    failures, last_start = 0, self._clock() + self._policy.deadline_s
                failures += 1
                pause = self._policy.pause_s(failures) if error.pause_s is None else error.pause_s
                if failures >= self._policy.attempts or self._clock() + pause > last_start:
                    raise SinkError(f"{error} (tried {_times(failures)})") from error
                self._tell(str(error))
            else:
                if failures:
                    self._tell(None)
                return result
            self.retries += 1
            self._sleep(pause)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
