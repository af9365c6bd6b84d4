"""API keys, and users who log in to manage a node, as a part of it."""

import asyncio
import time
from collections.abc import Callable

from heliograph.access.people.store import DATABASE, PeopleStore, load_keys
from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.delayed import may_be_there
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.observe.metric import Sample
from heliograph.parts import Change, Part
from heliograph.storage.state.local import LocalState


def _now_s() -> int:
    return int(time.time())


class PeoplePart(Part):
    """Users and API keys; owned by the node. Their database is made by the first of them."""

    name = "people"
    metrics = COMMITS
    needs = ("data_dir",)
    roots = ("api_key",)

    def __init__(self, config: Config, directory: DataDirectory, now_s: Callable[[], int] = _now_s) -> None:
        self._file = config.api_key.bootstrap_file
        self._state = LocalState(directory.path, DATABASE)
        self.people = PeopleStore(self._state, lambda: may_be_there(self._state.path))
        self.now_s = now_s
        self._loading: asyncio.Task[None] | None = None
        self._is_due = True  # the file is to be read, once more if it is being read

    async def start(self) -> None:
        """A mistake in the bootstrap file keeps no node from its clients."""
        await self._load()

    async def stop(self) -> None:
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)
        await self.people.close()

    async def check(self, new: Config) -> Change | None:
        file = new.api_key.bootstrap_file
        return Change(lambda: self._use(file)) if file or self._file else None

    def samples(self) -> list[Sample]:
        if not self.people.is_open:
            return []
        return samples_of(DATABASE, self._state.statistics(), self._state.commit_times)

    def _use(self, file: str) -> None:
        self._file, self._is_due = file, True
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._load(), name="API keys of a file")

    async def _load(self) -> None:
        while self._is_due:
            self._is_due = False
            if self._file:
                await load_keys(self.people, self._file, self.now_s())
