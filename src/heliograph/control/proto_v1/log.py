"""The log: what is asked of it, and answers."""

from typing import Literal, TypeAlias

import msgspec

from heliograph.rpc.methods import Args

Level: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class LogLevelWanted(Args, frozen=True):
    """The level from now on: lines below it are not written."""

    level: Level


class LogLevel(msgspec.Struct, frozen=True):
    """The level of the log."""

    level: str
