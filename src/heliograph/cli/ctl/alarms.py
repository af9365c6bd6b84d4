"""`ctl alarms`: what is wrong with a node for longer than a moment."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import alarms as proto

_MILLISECOND_US = 1000
_ACTIVE = (
    "name",
    "severity",
    TableColumn("since", lambda row: time_of(row.activate_at * _MILLISECOND_US)),
    "message",
)
_ENDED = (
    *_ACTIVE[:3],
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
        _list,
        "list",
        "list those that are active, or with --history those that ended",
        "heliograph ctl alarms list --history",
    )
    listing.add_argument("--history", action="store_true", help="those that ended: the last thousand since the start")
    deactivate = add_command(
        group, _deactivate, "deactivate", "end one by hand", "heliograph ctl alarms deactivate stored_messages_damaged"
    )
    deactivate.add_argument("name", metavar="NAME", help="as `alarms list` shows it")
    add_command(group, _clear, "clear", "forget those that ended")


def _list(args: argparse.Namespace) -> int:
    """List the alarms that are active, oldest first; with --history those that ended."""
    question = proto.ALARMS_LIST(proto.AlarmsWanted(args.history))
    return print_list(args, question, _ENDED if args.history else _ACTIVE)


def _deactivate(args: argparse.Namespace) -> int:
    """End an alarm by hand. Its cause stays: the alarm begins again when that ends and comes back."""
    row = answer_of(args, proto.ALARMS_DEACTIVATE(proto.AlarmName(args.name)))
    return print_done(row, f"the alarm {text_of(row.name)} has ended", args.json)


def _clear(args: argparse.Namespace) -> int:
    """Forget the alarms that ended; those that are active stay."""
    cleared = answer_of(args, proto.ALARMS_CLEAR())
    return print_done(
        cleared,
        f"{counted(cleared.cleared, 'alarm that had ended was', 'alarms that had ended were')} forgotten",
        args.json,
    )
