"""The log as a part of a node: its settings while the node runs, and whether it can be written."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from heliograph.config.log import LogConfig
from heliograph.config.settings import Config
from heliograph.observe.log_format import LEVELS
from heliograph.observe.log_output import LogOutput, open_targets
from heliograph.observe.log_ring import LogRing
from heliograph.observe.metric import Sample, counter, plain
from heliograph.parts import Change, Part

_RECENT_ENTRIES: Final = 1000
_RECENT_CHARACTERS: Final = 2000


class LogPart(Part):
    """Changes the log while the node runs; the first settings are the program's to use, before it makes a node.

    In a program that has a log of its own (no `LogOutput`) it changes the level only.
    """

    name = "log"
    roots = ("log",)
    metrics = (counter("log.lost", "Lines of the log that could not be written."),)

    def __init__(self, config: Config) -> None:
        self._settings = config.log
        self._data_dir = Path(config.node.data_dir)
        self.recent = LogRing("debug", _RECENT_ENTRIES, _RECENT_CHARACTERS)

    async def start(self) -> None:
        logging.getLogger().addHandler(self.recent)

    async def stop(self) -> None:
        logging.getLogger().removeHandler(self.recent)

    async def check(self, new: Config) -> Change | None:
        """Other places are opened here."""
        if new.log == self._settings:
            return None
        output = LogOutput.installed()
        if output is None:
            return Change(lambda: self._set_level(new.log))
        targets = open_targets(new.log, self._data_dir)

        def apply() -> None:
            self._settings = new.log
            output.use(targets)

        def undo() -> None:
            for target in targets:
                target.close()

        return Change(apply, undo)

    def tick(self, uptime_us: int) -> None:
        """Create a file again that is gone."""
        output = LogOutput.installed()
        if output is not None:
            output.tick()

    def health(self) -> str:
        output = LogOutput.installed()
        return "" if output is None else output.fault

    def samples(self) -> Iterable[Sample]:
        output = LogOutput.installed()
        return plain({"log.lost": 0 if output is None else output.lost_count})

    def _set_level(self, settings: LogConfig) -> None:
        self._settings = settings
        logging.getLogger().setLevel(level_of(settings))


def level_of(settings: LogConfig) -> int:
    """As `logging` has it."""
    enabled = [LEVELS[each.level] for each in (settings.console, settings.file) if each.enable]
    return min(enabled, default=logging.CRITICAL + 1)
