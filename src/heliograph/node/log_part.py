"""The level of the log as a part of a node."""

import logging

from heliograph.config import Config
from heliograph.parts import Change, Part


class LogPart(Part):
    """Sets another level while the node runs; the first one is the program's to set, before it makes a node."""

    name = "log"
    roots = ("log",)

    def __init__(self, config: Config) -> None:
        self._level = config.log.level

    async def check(self, new: Config) -> Change | None:
        """Another level, if it is another."""
        return None if new.log.level == self._level else Change(lambda: self._set(new.log.level))

    def _set(self, level: str) -> None:
        self._level = level
        logging.getLogger().setLevel(level.upper())
