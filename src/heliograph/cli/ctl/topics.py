"""`ctl topics` and `ctl exclusive`: filters that have subscriptions, and exclusive topics."""

import argparse
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import TableColumn, print_done, print_rows, text_of
from heliograph.cli.ctl.tables import add_table_options, listed_columns, sorted_rows, table_columns
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import subscriptions as proto

_COLUMNS: Final = listed_columns(proto.TOPIC)
_HOLDERS: Final = listed_columns(proto.EXCLUSIVE)


def add_parser(actions: Actions) -> None:
    """Add `topics` and `exclusive`, and their commands."""
    _add_topics(actions)
    group = add_group(
        actions,
        "exclusive",
        "list and free exclusive topics",
        "Topics below `$exclusive/`, to which only one client may be subscribed at a time.",
        "heliograph ctl exclusive list",
    )
    listing = add_command(
        group,
        "list",
        "list those that are taken",
        "List those that are taken, with the clients that hold them.",
        "heliograph ctl exclusive list",
    )
    add_table_options(listing, _HOLDERS)
    listing.set_defaults(act=_taken)
    delete = add_command(
        group,
        "delete",
        "free one",
        "Free an exclusive topic: the client that holds it loses its subscription and is not notified.",
        "heliograph ctl exclusive delete plant/1/commands",
    )
    delete.add_argument("topic", metavar="TOPIC", help="as `exclusive list` shows it")
    delete.set_defaults(act=_free)


def _add_topics(actions: Actions) -> None:
    group = add_group(
        actions,
        "topics",
        "list the filters that messages are routed by",
        "The topic filters that have subscriptions. Those of durable sessions whose clients are away are not listed: "
        "what they miss is read from the disk.",
        "heliograph ctl topics show plant/1/temperature",
    )
    listing = add_command(
        group,
        "list",
        "list all",
        "List all filters that have subscriptions.",
        "heliograph ctl topics list --sort subscriptions_cnt --limit 20",
    )
    add_table_options(listing, _COLUMNS)
    listing.set_defaults(act=_list)
    show = add_command(
        group,
        "show",
        "show the filters that a topic matches",
        "Show the filters that a topic name matches, with their shared groups; or one filter.",
        "heliograph ctl topics show plant/1/temperature",
        "heliograph ctl topics show 'plant/#'",
    )
    show.add_argument("topic", metavar="TOPIC", help="a topic name, or a filter")
    show.set_defaults(act=_show)


def _list(args: argparse.Namespace) -> int:
    columns = table_columns(args, _COLUMNS)
    with asked(args) as node:
        rows = node.rows(proto.TOPICS_LIST(proto.TopicsWanted(0 if args.sort else args.limit)))
        print_rows(sorted_rows(rows, args, _COLUMNS), columns, args.json)
    return 0


def _show(args: argparse.Namespace) -> int:
    with asked(args) as node:
        rows = node.rows(proto.TOPICS_SHOW(proto.TopicName(args.topic)))
        print_rows(rows, ("topic", "subscriptions_cnt", TableColumn("shared groups", _groups)), args.json)
    return 0


def _groups(row: proto.TopicRow) -> object:
    if row.groups is None:
        return "too many subscriptions to look"
    return [f"{name} ({count})" for name, count in row.groups.items()]


def _taken(args: argparse.Namespace) -> int:
    columns = table_columns(args, _HOLDERS)
    with asked(args) as node:
        rows = node.rows(proto.EXCLUSIVE_LIST(proto.TopicsWanted(0 if args.sort else args.limit)))
        print_rows(sorted_rows(rows, args, _HOLDERS), columns, args.json)
    return 0


def _free(args: argparse.Namespace) -> int:
    with asked(args) as node:
        freed = node.ask(proto.EXCLUSIVE_DELETE(proto.TopicName(args.topic)))
    return print_done(freed, f"{text_of(freed.topic)} is free; client {text_of(freed.clientid)} had it", args.json)
