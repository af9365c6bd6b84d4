"""The bans of a node on its disk, and with its sessions: those that are made outlast a restart, and hold for wills."""

from contextlib import suppress
from typing import Final

from heliograph.access.bans.parts import BansPart
from heliograph.access.bans.stored import StoredBans
from heliograph.node.data_dir import DataDirectory
from heliograph.node.delayed import may_be_there
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.observe.metric import Sample
from heliograph.parts import Part
from heliograph.storage.errors import StorageError
from heliograph.storage.state.local import LocalState

BANS: Final = "bans"


class StoredBansPart(Part):
    """Keeps bans that are made; owned by the node.

    Its database is made with the first ban: a node without bans does not pay for it.
    """

    name = "stored_bans"
    metrics = COMMITS
    needs = ("data_dir", "kernel", "bans")

    def __init__(self, directory: DataDirectory, kernel: KernelPart, bans: BansPart) -> None:
        self._directory = directory
        self._kernel = kernel
        self._bans = bans
        self._stored: StoredBans | None = None

    async def start(self) -> None:
        """Load the bans of an earlier process, and keep those that come."""
        bans, path = self._bans.bans, self._directory.path
        self._kernel.context.sessions.wills.is_banned = bans.may_not_publish

        def opened() -> LocalState:
            state = LocalState(path, BANS)
            with suppress(StorageError):  # each use of it tries again, and says why it cannot
                state.open()
            return state

        self._stored = StoredBans(bans, opened, may_be_there(LocalState(path, BANS).path), self._kernel.alarms)
        self._stored.load()

    async def stop(self) -> None:
        """Write what was decided."""
        if self._stored is not None:
            await self._stored.close()

    def tick(self, uptime_us: int) -> None:
        """Go on with what the disk refused."""
        if self._stored is not None:
            self._stored.tick()

    def health(self) -> str:
        """Why the disk does not take them, or they cannot be read."""
        return "" if self._stored is None else str(self._stored.health)

    def samples(self) -> list[Sample]:
        """Counts of the database; none before it is needed."""
        state = None if self._stored is None else self._stored.state
        return [] if state is None else samples_of(BANS, state.statistics(), state.commit_times)
