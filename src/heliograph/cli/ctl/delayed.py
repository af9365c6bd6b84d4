"""`ctl delayed`: the messages that a node publishes later."""

import argparse
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of
from heliograph.cli.ctl.payloads import print_message
from heliograph.cli.ctl.printing import print_done, print_json
from heliograph.cli.ctl.tables import add_table_options, listed_columns, print_table
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import delayed as proto

_COLUMNS: Final = listed_columns(proto.DELAYED)


def add_parser(actions: Actions) -> None:
    """Add `delayed` and its commands."""
    group = add_group(
        actions,
        "delayed",
        "list, show and delete messages that are published later",
        "Messages that were published to `$delayed/SECONDS/TOPIC`, and wait for their time.",
        "heliograph ctl delayed list",
    )
    add_command(group, _info, "info", "say how many are held")
    listing = add_command(group, _list, "list", "list them")
    add_table_options(listing, _COLUMNS)
    show = add_command(group, _show, "show", "show one with its payload", "heliograph ctl delayed show 17")
    delete = add_command(group, _delete, "delete", "let one go", "heliograph ctl delayed delete 17")
    for parser in (show, delete):
        parser.add_argument("id", type=int, metavar="ID", help="as `delayed list` shows it")


def _info(args: argparse.Namespace) -> int:
    """Say how many are held, and what they take."""
    info = answer_of(args, proto.DELAYED_INFO())
    if args.json:
        print_json(info)
        return 0
    counts = info.counts
    place = "on the disk" if info.storage == "disc" else "in memory"
    print(f"{counted(int(counts['delayed.count']), 'message')}, {counts['delayed.bytes']:,.0f} bytes, {place}")
    for name, count in counts.items():
        if count and "dropped" in name:
            print(f"  {name}: {count:,.0f}")
    return 0


def _list(args: argparse.Namespace) -> int:
    """List them in the order in which they came."""
    return print_table(args, _COLUMNS, lambda limit: proto.DELAYED_LIST(proto.DelayedPage(limit=limit)))


def _show(args: argparse.Namespace) -> int:
    """Show one with its payload."""
    found = answer_of(args, proto.DELAYED_SHOW(proto.DelayedNumber(args.id)))
    row = found.row
    facts = {
        "id": row.id,
        "topic": row.topic,
        "qos": row.qos,
        "bytes": row.bytes,
        "clientid": row.clientid,
        "username": row.username,
        "received_at": row.received_at,
        "expected_at": row.expected_at,
    }
    print_message(facts, found.payload, row.bytes, args.json)
    return 0


def _delete(args: argparse.Namespace) -> int:
    """Let one go: it is not published, and a disk that keeps it forgets it."""
    row = answer_of(args, proto.DELAYED_DELETE(proto.DelayedNumber(args.id)))
    return print_done(row, f"message {row.id} to {row.topic!r} is not published any more", args.json)
