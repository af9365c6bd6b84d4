"""Commits of a state database that coroutines wait for."""

import asyncio
from collections import deque

from heliograph.storage.errors import StorageError
from heliograph.storage.state.interface import StateBatch, StateDatabase


class AwaitedCommits:
    """Submits batches and waits until they are on the disk; owned by what submits them, in the event loop's thread."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  # by ticket; tickets never fall
        state.listen(self._committed)

    async def commit(self, batch: StateBatch) -> None:
        """Make changes, and wait until they are on the disk."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._state.submit(batch), done))
        await done

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        while self._waiting and self._waiting[0][0] <= ticket:
            done = self._waiting.popleft()[1]
            if done.done():  # what waited was cancelled
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

    def __repr__(self) -> str:
        return f"AwaitedCommits({self._state!r}, {len(self._waiting)} wait)"
