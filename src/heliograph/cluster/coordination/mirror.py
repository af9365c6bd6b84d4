"""The records below a prefix as they are, kept up to date by a watch."""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from typing import Final

from heliograph.cluster.coordination.interface import Coordinator, CoordinatorError, Record, WatchGoneError
from heliograph.processes.backoff import Backoff

_AGAIN: Final = Backoff(first_s=0.1, longest_s=5.0)


class Mirror:
    """What a coordinator has below a prefix. While it is away, the mirror has what was there last.

    Args:
        prefix: Where the keys begin.
        on_changed: Called with the keys of records that are new, changed or gone.
        on_away: Called with the reason when nothing can be heard, and with an empty text when it can be again.

    Attributes:
        records: By their keys.
        revision: As of which they are; 0 before anything was read.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        prefix: str,
        on_changed: Callable[[Collection[str]], None],
        on_away: Callable[[str], None],
    ) -> None:
        self.records: dict[str, Record] = {}
        self.revision = 0
        self._coordinator = coordinator
        self._prefix = prefix
        self._on_changed = on_changed
        self._on_away = on_away
        self._is_away = False

    async def run(self) -> None:
        """Read and watch for ever."""
        failures = 0
        while True:
            began_s = time.monotonic()
            try:
                await self._read()
                await self._watch()
            except WatchGoneError:
                continue  # read again at once
            except CoordinatorError as error:
                self._say_away(str(error))
                was_there = time.monotonic() - began_s > _AGAIN.longest_s
                failures = 1 if was_there else failures + 1
                pause_s = _AGAIN.pause_s(failures)
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # nodes that failed together come apart

    async def _read(self) -> None:
        listing = await self._coordinator.get(self._prefix)
        before, self.records, self.revision = self.records, listing.records, listing.revision
        changed = [key for key in {**before, **self.records} if before.get(key) != self.records.get(key)]
        if changed:
            self._on_changed(changed)

    async def _watch(self) -> None:
        async for changes in self._coordinator.watch(self._prefix, self.revision):
            self._say_away("")
            if not changes.records:
                continue
            self.revision = changes.revision
            for key, record in changes.records.items():
                if record is None:
                    self.records.pop(key, None)
                else:
                    self.records[key] = record
            self._on_changed(changes.records)

    def _say_away(self, reason: str) -> None:
        if bool(reason) != self._is_away:
            self._is_away = bool(reason)
            self._on_away(reason)

    def __repr__(self) -> str:
        return f"Mirror({self._prefix!r}, {len(self.records)} records at revision {self.revision})"
