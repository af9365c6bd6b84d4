"""`ctl retainer`: the retained messages of a running node."""

import argparse
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of
from heliograph.cli.ctl.payloads import print_message
from heliograph.cli.ctl.printing import print_done, print_facts, print_json
from heliograph.cli.ctl.tables import add_table_options, listed_columns, print_table
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import retained as proto

_COLUMNS: Final = listed_columns(proto.RETAINED)


def add_parser(actions: Actions) -> None:
    """Add `retainer` and its commands."""
    group = add_group(
        actions,
        "retainer",
        "list, show and delete retained messages",
        "The retained messages of the node. `heliograph retainer` also reads those of a node that is stopped.",
        "heliograph ctl retainer topics 'site/+/state' --limit 20",
    )
    add_command(group, _info, "info", "say how many there are", "heliograph ctl retainer info --json")
    topics = add_command(
        group,
        _topics,
        "topics",
        "list them",
        "heliograph ctl retainer topics 'site/+/state' --limit 20",
        "heliograph ctl retainer topics --sort bytes --limit 20",
        alias="list",
    )
    topics.add_argument("filter", nargs="?", default="", metavar="FILTER", help="a topic filter; without one, all")
    add_table_options(topics, _COLUMNS)
    show = add_command(group, _show, "show", "show one with its payload", "heliograph ctl retainer show site/1/state")
    show.add_argument("topic", metavar="TOPIC")
    clean = add_command(
        group, _clean, "clean", "delete some, or all", "heliograph ctl retainer clean 'site/7/#' --dry-run"
    )
    clean.add_argument("filter", nargs="?", default="#", metavar="FILTER", help="a topic filter; default #")
    clean.add_argument("--dry-run", action="store_true", help="only say how many it would be")
    reindex = add_command(
        group, _reindex, "reindex", "rebuild the index of topics on the disk", "heliograph ctl retainer reindex start"
    )
    reindex.add_argument("what", choices=("start", "status"), help="begin it, or show how far it is")


def _info(args: argparse.Namespace) -> int:
    """Say how many there are, what they take, and how many were not kept."""
    info = answer_of(args, proto.RETAINER_INFO())
    if args.json:
        print_json(info)
    else:
        on_disk = info.storage == "disc"
        streams = f", {info.streams:,} streams of topics" if on_disk else ""
        place = "on the disk" if on_disk else "in memory"
        print(f"{counted(info.messages, 'message')}, {info.bytes:,} bytes{streams}, {place}")
        for name, count in info.counts.items():
            if count and "dropped" in name:
                print(f"  {name}: {count:,}")
    return 0


def _topics(args: argparse.Namespace) -> int:
    """List the retained messages of a topic filter, or all of them, those below `$SYS/` too."""
    return print_table(args, _COLUMNS, lambda limit: proto.RETAINER_TOPICS(proto.RetainedTopics(args.filter, limit)))


def _show(args: argparse.Namespace) -> int:
    """Show the retained message of one topic, with its payload."""
    found = answer_of(args, proto.RETAINER_SHOW(proto.RetainedTopic(args.topic)))
    facts = {
        "topic": found.row.topic,
        "qos": found.row.qos,
        "bytes": found.row.bytes,
        "clientid": found.row.clientid,
        "username": found.username,
        "received_at": found.row.received_at,
        "expires_at": found.row.expires_at,
        "properties": found.properties,
    }
    print_message(facts, found.payload, found.row.bytes, args.json)
    return 0


def _clean(args: argparse.Namespace) -> int:
    """Delete the retained messages of a topic filter; without one, all whose topics do not begin with '$'. It ends when
    the disk has done it. Subscribers are not notified.
    """
    cleaned = answer_of(args, proto.RETAINER_CLEAN(proto.RetainedClean(args.filter, args.dry_run)))
    if args.dry_run:
        count = f"{counted(cleaned.found, 'message')} would be"
    else:
        count = counted(cleaned.deleted, "message was", "messages were")
    return print_done(cleaned, f"{count} deleted", args.json)


def _reindex(args: argparse.Namespace) -> int:
    """A node with retained messages on its disk remembers which topics there are, so that a lookup in vain does not ask
    the disk. Deleted topics are remembered until it is rebuilt, which happens by itself when they are many. `start`
    begins it now, and it goes on while the node serves; `status` says how far it is.
    """
    index = answer_of(args, (proto.RETAINER_REINDEX if args.what == "start" else proto.RETAINER_INDEX)())
    print_facts(index, args.json)
    return 0
