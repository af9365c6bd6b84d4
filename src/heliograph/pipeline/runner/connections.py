"""Keeps the connection of an action to its target from batch to batch."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final, TypeVar

_Connection = TypeVar("_Connection")

# Servers and what stands before them close what is silent for a minute or more.
_IDLE_MAX_S: Final = 30.0


class KeptConnection:
    """The connection of one action. Owned by the thread that runs it; see `TargetConnections`."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._stack = ExitStack()
        self._kept: Any = None
        self._used_at_s = 0.0

    @contextmanager
    def opened(
        self, opens: Callable[[], AbstractContextManager[_Connection]], *, stays: bool = False
    ) -> Iterator[_Connection]:
        if self._kept is not None and not stays and self._clock_s() - self._used_at_s > _IDLE_MAX_S:
            self.close()
        if self._kept is None:
            self._kept = self._stack.enter_context(opens())
        try:
            yield self._kept
        except BaseException:
            self.close()
            raise
        self._used_at_s = self._clock_s()

    def close(self) -> None:
        self._kept = None
        self._stack.close()

    def __repr__(self) -> str:
        return f"KeptConnection({'none' if self._kept is None else 'open'})"
