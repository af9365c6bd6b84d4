"""`ctl alarms`: what is wrong with a node for longer than a moment."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import TableColumn, print_done, print_rows, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import alarms as proto

_MILLISECOND_US = 1000
_ACTIVE = (
    "name",
    TableColumn("since", lambda row: time_of(row.activate_at * _MILLISECOND_US)),
    "message",
)
_ENDED = (
    *_ACTIVE[:2],
    TableColumn("until", lambda row: time_of(row.deactivate_at * _MILLISECOND_US)),
    "message",
)


def add_parser(actions: Actions) -> None:
    """Add `alarms` and its commands."""
    group = add_group(
        actions,
        "alarms",
        "list and end alarms",
        "Alarms of the node. docs/runbook.md says what to do about each.",
        "heliograph ctl alarms list",
    )
    listing = add_command(
        group,
        "list",
        "list those that are active, or with --history those that ended",
        "List the alarms that are active, oldest first; with --history those that ended.",
        "heliograph ctl alarms list --history",
    )
    listing.add_argument("--history", action="store_true", help="those that ended: the last thousand since the start")
    listing.set_defaults(act=_list)
    deactivate = add_command(
        group,
        "deactivate",
        "end one by hand",
        "End an alarm by hand. Its cause stays: the alarm begins again when that ends and comes back.",
        "heliograph ctl alarms deactivate stored_messages_damaged",
    )
    deactivate.add_argument("name", metavar="NAME", help="as `alarms list` shows it")
    deactivate.set_defaults(act=_deactivate)
    add_command(
        group,
        "clear",
        "forget those that ended",
        "Forget the alarms that ended; those that are active stay.",
        "heliograph ctl alarms clear",
    ).set_defaults(act=_clear)


def _list(args: argparse.Namespace) -> int:
    with asked(args) as node:
        rows = node.rows(proto.ALARMS_LIST(proto.AlarmsWanted(args.history)))
        print_rows(rows, _ENDED if args.history else _ACTIVE, args.json)
    return 0


def _deactivate(args: argparse.Namespace) -> int:
    with asked(args) as node:
        row = node.ask(proto.ALARMS_DEACTIVATE(proto.AlarmName(args.name)))
    return print_done(row, f"the alarm {text_of(row.name)} has ended", args.json)


def _clear(args: argparse.Namespace) -> int:
    with asked(args) as node:
        cleared = node.ask(proto.ALARMS_CLEAR())
    return print_done(cleared, f"{cleared.cleared:,} alarms that had ended were forgotten", args.json)
