"""`ctl log`: the newest entries of a node's log, and its level."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import print_done, print_json, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import log as proto
from heliograph.control.proto_v1.conf import CONF_CHANGE, ConfChangeArgs

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def add_parser(actions: Actions) -> None:
    """Add `log` and its commands."""
    group = add_group(
        actions,
        "log",
        "show the newest entries of the log, and its level",
        "The newest entries of the log, and its level until the node starts again, or settings of `log` change.",
        "heliograph ctl log show --level warning",
        "heliograph ctl log set-level debug",
    )
    show = add_command(
        group, _show, "show", "print the newest entries", "heliograph ctl log show --level warning --limit 20"
    )
    show.add_argument(
        "--level", choices=_LEVELS, default="debug", metavar="LEVEL", help="leave out those below (default: debug)"
    )
    show.add_argument("--limit", type=int, default=50, metavar="N", help="so many at most (default: 50)")
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


def _show(args: argparse.Namespace) -> int:
    """Print the newest entries that the node still has in memory, the newest last; its files have all."""
    with asked(args) as node:
        for one in node.rows(proto.LOG_ENTRIES(proto.LogEntriesWanted(args.level, limit=args.limit))):
            if args.json:
                print_json(one)
            else:
                end = f": {text_of(one.error)}" if one.error else ""
                print(f"{time_of(one.at)} {one.level.upper()} {one.logger}: {text_of(one.text)}{end}")
    return 0


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
