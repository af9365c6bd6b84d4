"""`ctl topics` and `ctl exclusive`: filters that have subscriptions, and exclusive topics."""

import argparse
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, text_of
from heliograph.cli.ctl.tables import add_table_options, listed_columns, print_table
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
    listing = add_command(group, _taken, "list", "list those that are taken")
    add_table_options(listing, _HOLDERS)
    delete = add_command(group, _free, "delete", "free one", "heliograph ctl exclusive delete plant/1/commands")
    delete.add_argument("topic", metavar="TOPIC", help="as `exclusive list` shows it")


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
        group, _list, "list", "list all", "heliograph ctl topics list --sort subscriptions_cnt --limit 20"
    )
    add_table_options(listing, _COLUMNS)
    show = add_command(
        group,
        _show,
        "show",
        "show the filters that a topic matches",
        "heliograph ctl topics show plant/1/temperature",
        "heliograph ctl topics show 'plant/#'",
    )
    show.add_argument("topic", metavar="TOPIC", help="a topic name, or a filter")


def _list(args: argparse.Namespace) -> int:
    """List all filters that have subscriptions."""
    return print_table(args, _COLUMNS, lambda limit: proto.TOPICS_LIST(proto.TopicsWanted(limit)))


def _show(args: argparse.Namespace) -> int:
    """Show the filters that a topic name matches, with their shared groups; or one filter."""
    columns = ("topic", "subscriptions_cnt", TableColumn("shared groups", _groups))
    return print_list(args, proto.TOPICS_SHOW(proto.TopicName(args.topic)), columns)


def _groups(row: proto.TopicRow) -> object:
    if row.groups is None:
        return "too many subscriptions to look"
    return [f"{name} ({count})" for name, count in row.groups.items()]


def _taken(args: argparse.Namespace) -> int:
    """List those that are taken, with the clients that hold them."""
    return print_table(args, _HOLDERS, lambda limit: proto.EXCLUSIVE_LIST(proto.TopicsWanted(limit)))


def _free(args: argparse.Namespace) -> int:
    """Free an exclusive topic: the client that holds it loses its subscription and is not notified."""
    freed = answer_of(args, proto.EXCLUSIVE_DELETE(proto.TopicName(args.topic)))
    return print_done(freed, f"{text_of(freed.topic)} is free; client {text_of(freed.clientid)} had it", args.json)
