"""One stream of events: of each subject the newest event waits for a reader, older ones are lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Final

from heliograph.management.web.event_streams import ALIVE, ALIVE_S, event_of

_BEGIN: Final = b"retry: 2000\n\n"  # milliseconds after which a browser connects again


class LiveStream:
    """The events of some subjects for one reader; owned by the hub from `open` to `close`.

    Args:
        names: Of the subjects.
        check: Raises `ApiError` when the reader may not watch them any more.
    """

    def __init__(self, names: Collection[str], check: Callable[[], Awaitable[None]]) -> None:
        self.names = frozenset(names)
        self.check = check
        self._waiting: dict[str, bytes] = {}
        self._came = asyncio.Event()
        self._end = b""

    def put(self, name: str, event: bytes) -> None:
        """Send an event, in the place of an older one of the same subject."""
        self._waiting.pop(name, None)
        self._waiting[name] = event
        self._came.set()

    def end(self, code: str, message: str) -> None:
        """End the stream, and say why."""
        self._end = event_of("end", {"code": code, "message": message})
        self._came.set()

    async def events(self) -> AsyncIterator[bytes]:
        """What is sent."""
        yield _BEGIN
        while True:
            try:
                async with asyncio.timeout(ALIVE_S):
                    await self._came.wait()
            except TimeoutError:
                yield ALIVE
                continue
            self._came.clear()
            taken, self._waiting = self._waiting, {}
            yield b"".join(taken.values()) + self._end
            if self._end:
                return

    def __repr__(self) -> str:
        return f"LiveStream({', '.join(sorted(self.names))})"
