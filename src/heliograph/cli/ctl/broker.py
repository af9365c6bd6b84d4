"""`ctl broker`: what a node is, how many of a thing it has, and what it has counted."""

import argparse

from heliograph.cli.ctl.asking import add_command, asked
from heliograph.cli.ctl.printing import TableColumn, print_facts, print_rows
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1.broker import BROKER_INFO, BROKER_METRICS, BROKER_STATS

_WHAT = ("info", "stats", "metrics")


def add_parser(actions: Actions) -> None:
    """Add `broker`."""
    parser = add_command(
        actions, _broker, "broker", "show the numbers of the node", "heliograph ctl broker metrics --nonzero"
    )
    parser.add_argument("what", nargs="?", choices=_WHAT, default="info", help="default: info")
    parser.add_argument("--nonzero", action="store_true", help="leave out numbers that are 0")


def _broker(args: argparse.Namespace) -> int:
    """Show what the node is; with `stats` how many of a thing there are now, with `metrics` what it has counted since
    its start. docs/metrics.md says what each number is.
    """
    with asked(args) as node:
        if args.what == "info":
            print_facts(node.ask(BROKER_INFO()), args.json)
            return 0
        wanted = BROKER_STATS if args.what == "stats" else BROKER_METRICS
        numbers = sorted(node.rows(wanted()), key=lambda number: number.name)
    shown = [number for number in numbers if number.value or not args.nonzero]
    print_rows(shown, ("name", TableColumn("value", lambda number: number.value), "unit"), args.json)
    return 0
