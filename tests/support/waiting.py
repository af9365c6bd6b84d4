"""Waits for what another process or thread does and has no way to say: a line in its log, a row in its table.

Where there is an event, a line of output or a message to wait for, wait for that: this looks again and again.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

_LOOK_S: Final = 0.02
_LOOK_MAX_S: Final = 0.25
_WAITED_FOR_EACH: Final = 16  # pauses grow with the time that was waited: what takes long is asked about less often


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
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        has_ended = not is_alive()
        if has_ended or waited >= deadline_s:
            told = what if isinstance(what, str) else what()
            raise AssertionError(
                f"it has ended before: {told}" if has_ended else f"not within {deadline_s:g} s: {told}"
            )
        pause = min(_LOOK_MAX_S, max(_LOOK_S, waited / _WAITED_FOR_EACH))
        time.sleep(pause)  # the other side cannot say that it is done


async def until(condition: Callable[[], object], deadline_s: float = 30.0) -> None:
    """Wait until a condition holds that other tasks of this event loop bring about.

    Raises:
        TimeoutError: It did not come to hold.
    """
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.001)  # other tasks go on
