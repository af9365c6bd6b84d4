"""The log: what is asked of it, and answers."""

from typing import Literal, TypeAlias

import msgspec

from heliograph.control.columns import Time
from heliograph.rpc.asks import ACTS, ONE, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs

Level: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class LogLevelWanted(Args, frozen=True):
    """The level from now on: lines below it are not written."""

    level: Level


class LogLevel(msgspec.Struct, frozen=True):
    """The level of the log."""

    level: str


class LogEntriesWanted(Args, frozen=True):
    """The newest entries of the log of the node, as far as its level writes any.

    Attributes:
        level: The least severe level.
        after: Only entries with higher numbers.
        limit: So many, the newest ones.
    """

    level: Level = "debug"
    after: int = 0
    limit: int = 200


class LogEntryRow(msgspec.Struct, frozen=True):
    """A row of `log.entries`.

    Attributes:
        number: They are numbered from the start of the node on.
        at: Microseconds since the epoch.
        logger: Which module wrote it.
        error: The end of the traceback that it is about; empty for none.
    """

    number: int
    at: Time
    level: str
    logger: str
    text: str
    error: str


LOG_ENTRIES = ListAsk("log.entries", LogEntriesWanted, LogEntryRow, ONE)
LOG_LEVEL = Ask("log.level", NoArgs, LogLevel, ONE)
LOG_SET_LEVEL = Ask("log.set_level", LogLevelWanted, LogLevel, ONE, ACTS)
