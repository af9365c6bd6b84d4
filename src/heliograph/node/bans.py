"""The ban list as a part of a node."""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from heliograph.access.banned import Ban, BanError, BanList
from heliograph.access.bootstrap import load_bans
from heliograph.config import Banned, Config
from heliograph.node.metrics.clients import BANS
from heliograph.parts import Apply, Part

_log = logging.getLogger(__name__)


class BansPart(Part):
    """Who may not connect; owned by the node.

    Attributes:
        bans: The list.
    """

    name = "bans"
    metrics = BANS
    roots = ("banned",)
    live = roots

    bans: BanList

    def __init__(self, config: Config) -> None:
        self._settings = config.banned
        self._of_file: Sequence[Ban] = ()

    async def start(self) -> None:
        """Begin with those of the file.

        Raises:
            BootstrapFileError: The file cannot be used.
        """
        self.bans = self._read(self._settings)
        self._of_file = list(self.bans)

    def check(self, new: Config) -> Apply:
        """Read the file again: what is new in it is banned, what is not in it any more is lifted.

        Raises:
            BootstrapFileError: The file cannot be used.
        """
        fresh = self._read(new.banned)
        return lambda: self._replace(fresh)

    def tick(self, uptime_us: int) -> None:
        """Forget those that have ended."""
        self.bans.expire()

    def statistics(self) -> dict[str, int]:
        """Counts named `banned.*`."""
        return self.bans.statistics()

    def _read(self, settings: Banned) -> BanList:
        bans, file = BanList(_now_s, settings.max_entries), settings.bootstrap_file
        if file:
            _log.info("%d bans from %s", load_bans(bans, file, _now_s()), file)
        return bans

    def _replace(self, fresh: BanList) -> None:
        """Those that were made while the node runs stay."""
        bans = self.bans
        bans.entries_max = fresh.entries_max
        for ban in self._of_file:
            if fresh.find(ban.kind, ban.who) != ban and bans.find(ban.kind, ban.who) == ban:
                bans.remove(ban.kind, ban.who)
        self._of_file = list(fresh)
        for ban in self._of_file:
            with suppress(BanError):  # it has ended meanwhile
                bans.add(ban)


def _now_s() -> int:
    return int(time.time())
