"""The ban list as a part of a node."""

import logging
import time

from heliograph.access.banned import BanList
from heliograph.access.bootstrap import load_bans
from heliograph.config import Config
from heliograph.parts import Part

_log = logging.getLogger(__name__)


class BansPart(Part):
    """Who may not connect; owned by the node.

    Attributes:
        list: The bans.
    """

    name = "bans"
    roots = ("banned",)

    list: BanList

    def __init__(self, config: Config) -> None:
        self._settings = config.banned

    async def start(self) -> None:
        """Begin with those of the file.

        Raises:
            BootstrapFileError: The file cannot be used.
        """
        self.list = BanList(_now_s, self._settings.max_entries)
        file = self._settings.bootstrap_file
        if file:
            _log.info("%d bans from %s", load_bans(self.list, file, _now_s()), file)

    def tick(self, uptime_us: int) -> None:
        """Forget those that have ended."""
        self.list.expire()

    def statistics(self) -> dict[str, int]:
        """Counts named `banned.*`."""
        return self.list.statistics()


def _now_s() -> int:
    return int(time.time())
