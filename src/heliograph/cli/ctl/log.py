"""`ctl log`: the level of a node's log."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import print_done
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import log as proto
from heliograph.control.proto_v1.conf import CONF_CHANGE, ConfChangeArgs

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def add_parser(actions: Actions) -> None:
    """Add `log` and its commands."""
    group = add_group(
        actions,
        "log",
        "show and set the level of the log",
        "The level of the log until the node starts again, or settings of `log` change.",
        "heliograph ctl log set-level debug",
    )
    set_level = add_command(
        group,
        _level,
        "set-level",
        "set the level",
        "heliograph ctl log set-level debug",
        description="Set the level of the log: lines below it are not written.",
    )
    set_level.add_argument("level", choices=_LEVELS, metavar="LEVEL", help=", ".join(_LEVELS))
    primary = add_command(group, _level, "primary-level", "show the level, or set it")
    primary.add_argument("level", nargs="?", choices=_LEVELS, metavar="LEVEL", help="as of set-level")
    set_level.add_argument(
        "--save", action="store_true", help="also after the next start: set log.console.level and log.file.level"
    )
    primary.set_defaults(save=False)


def _level(args: argparse.Namespace) -> int:
    """Show the level of the log, or set it."""
    with asked(args) as node:
        if args.save:
            node.ask(CONF_CHANGE(ConfChangeArgs(values=_saved(args.level), comment="ctl log set-level")))
        if args.level is None:
            level = node.ask(proto.LOG_LEVEL())
        else:
            level = node.ask(proto.LOG_SET_LEVEL(proto.LogLevelWanted(args.level)))
    return print_done(level, level.level, args.json)


def _saved(level: str) -> tuple[tuple[str, str], ...]:
    """The settings that say the level."""
    return tuple((f"log.{place}.level", level) for place in ("console", "file"))
