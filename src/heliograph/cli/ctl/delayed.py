"""`ctl delayed`: the messages that a node publishes later."""

import argparse
from itertools import islice
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.payloads import print_message
from heliograph.cli.ctl.printing import print_done, print_json, print_rows
from heliograph.cli.ctl.tables import add_table_options, listed_columns, sorted_rows, table_columns
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
    add_command(
        group,
        "info",
        "say how many are held",
        "Say how many are held, and what they take.",
        "heliograph ctl delayed info",
    ).set_defaults(act=_info)
    listing = add_command(
        group, "list", "list them", "List them in the order in which they came.", "heliograph ctl delayed list"
    )
    add_table_options(listing, _COLUMNS)
    listing.set_defaults(act=_list)
    show = add_command(
        group, "show", "show one with its payload", "Show one with its payload.", "heliograph ctl delayed show 17"
    )
    delete = add_command(
        group,
        "delete",
        "let one go",
        "Let one go: it is not published, and a disk that keeps it forgets it.",
        "heliograph ctl delayed delete 17",
    )
    for parser, act in ((show, _show), (delete, _delete)):
        parser.add_argument("id", type=int, metavar="ID", help="as `delayed list` shows it")
        parser.set_defaults(act=act)


def _info(args: argparse.Namespace) -> int:
    with asked(args) as node:
        info = node.ask(proto.DELAYED_INFO())
    if args.json:
        print_json(info)
        return 0
    counts = info.counts
    place = "on the disk" if info.storage == "disc" else "in memory"
    print(f"{counts['delayed.count']:,.0f} messages, {counts['delayed.bytes']:,.0f} bytes, {place}")
    for name, count in counts.items():
        if count and "dropped" in name:
            print(f"  {name}: {count:,.0f}")
    return 0


def _list(args: argparse.Namespace) -> int:
    columns = table_columns(args, _COLUMNS)
    with asked(args) as node:
        rows = node.rows(proto.DELAYED_LIST(proto.DelayedPage()))
        found = sorted_rows(rows, args, _COLUMNS) if args.sort or not args.limit else islice(rows, args.limit)
        print_rows(found, columns, args.json)
    return 0


def _show(args: argparse.Namespace) -> int:
    with asked(args) as node:
        found = node.ask(proto.DELAYED_SHOW(proto.DelayedNumber(args.id)))
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
    with asked(args) as node:
        row = node.ask(proto.DELAYED_DELETE(proto.DelayedNumber(args.id)))
    return print_done(row, f"message {row.id} to {row.topic!r} is not published any more", args.json)
