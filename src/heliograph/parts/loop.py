"""What parts with turns of their own ask of an event loop."""

from collections.abc import Callable
from typing import Protocol


class Loop(Protocol):
    """What is asked of an event loop; `asyncio`'s is one."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call it in the next turn."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> object:
        """Call it after so many seconds."""
