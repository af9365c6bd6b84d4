"""Waits for what another process or thread does and has no way to say: a line in its log, a row in its table.

Where there is an event, a line of output or a message to wait for, wait for that: this looks again and again.
"""

import time
from collections.abc import Callable
from typing import Final

_LOOK_S: Final = 0.02


def wait_until(
    condition: Callable[[], object],
    what: str | Callable[[], str] = "what is awaited",
    *,
    is_alive: Callable[[], bool] = lambda: True,
    deadline_s: float = 240.0,
) -> None:
    """Wait until a condition holds.

    Args:
        condition: Asked again and again; cheap.
        what: What is awaited, for the failure; a function where that is only known then.
        is_alive: Whether it may still come: whether the process or thread runs.
        deadline_s: Seconds, beyond which it does not come; for a machine that is slow, not for one that is idle.

    Raises:
        AssertionError: It did not come.
    """
    end = time.monotonic() + deadline_s
    while not condition():
        told = what if isinstance(what, str) else what()
        assert is_alive(), f"it has ended before: {told}"
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {told}"
        time.sleep(_LOOK_S)  # the other side cannot say that it is done
