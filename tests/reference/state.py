"""A state database in memory, which the local one is compared with."""

import asyncio

from heliograph.storage.errors import StorageClosedError
from heliograph.storage.state.interface import OnStateCommitted, StateBatch, check_preconditions


class MemoryState:
    """A state database that forgets everything with the process.

    Args:
        name: Its name.
        loop: The event loop that answers are called in; the running one if None.
    """

    commit_times = None

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._name = name
        self._loop = loop or asyncio.get_running_loop()
        self._values: dict[bytes, bytes] = {}
        self._listeners: list[OnStateCommitted] = []
        self._ticket = 1
        self._is_called = False
        self._is_closed = False

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def is_full(self) -> bool:
        """Never."""
        return False

    def listen(self, on_committed: OnStateCommitted) -> None:
        """See `StateDatabase.listen`."""
        self._listeners.append(on_committed)

    def submit(self, batch: StateBatch) -> int:
        """See `StateDatabase.submit`."""
        if self._is_closed:
            raise StorageClosedError("the node is stopping", database=self._name)
        check_preconditions(self, batch)
        for prefix in batch.prefixes:
            for key in [key for key in self._values if key.startswith(prefix)]:
                del self._values[key]
        for key, value in batch.changes.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._answer)
        return self._ticket

    def get(self, key: bytes) -> bytes | None:
        """See `StateDatabase.get`."""
        return self._values.get(key)

    def scan(self, prefix: bytes = b"", after: bytes = b"", limit: int = 1024) -> list[tuple[bytes, bytes]]:
        """See `StateDatabase.scan`; sorts all keys, so it is for few."""
        found = sorted(key for key in self._values if key.startswith(prefix) and (key > after or not after))
        return [(key, self._values[key]) for key in found[:limit]]

    def statistics(self) -> dict[str, float]:
        """Counts for metrics."""
        return {"keys": len(self._values)}

    async def close(self) -> None:
        """See `StateDatabase.close`."""
        self._is_closed = True
        self._answer()

    def _answer(self) -> None:
        if self._is_called:
            self._is_called = False
            ticket, self._ticket = self._ticket, self._ticket + 1
            for listener in self._listeners:
                listener(ticket, None)

    def __repr__(self) -> str:
        return f"MemoryState({self._name!r}, {len(self._values)} keys)"
