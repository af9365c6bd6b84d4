"""`ctl ds`: the databases of a running node."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import TableColumn, print_json, print_rows, text_of
from heliograph.cli.ctl.times import size_of, time_of
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import storage as proto

_MESSAGES = "messages"
_DATABASES = (
    TableColumn("database", lambda row: row.name),
    "kind",
    TableColumn("state", lambda row: row.problem or ("open" if row.is_open else "closed")),
    TableColumn("on disk", lambda row: size_of(row.disk_bytes)),
    "shards",
    "generations",
    "streams",
    TableColumn("in memory", lambda row: size_of(row.counts.get("memory_bytes", -1))),
    TableColumn("waiting", lambda row: size_of(row.counts.get("buffered_bytes", -1))),
)
_GENERATIONS = (
    "shard",
    "generation",
    TableColumn("since", lambda row: time_of(row.since)),
    TableColumn("until", lambda row: time_of(row.until or 0) or "now"),
    "streams",
    "messages",
    TableColumn("size", lambda row: size_of(row.bytes)),
)


def add_parser(actions: Actions) -> None:
    """Add `ds` and its commands."""
    group = add_group(
        actions,
        "ds",
        "show the databases of durable storage",
        "Databases of durable storage. `heliograph storage` shows more, checks and exports.",
        "heliograph ctl ds info",
    )
    info = add_command(
        group,
        _info,
        "info",
        "show all databases, the storage reader, and the generations of one",
        "heliograph ctl ds info --database messages",
    )
    info.add_argument("--database", metavar="NAME", help=f"whose generations to show (default: {_MESSAGES})")


def _info(args: argparse.Namespace) -> int:
    """Show every database with its state and size, the storage reader, and the generations of one database of messages.
    Exit code 1: a database does not work.
    """
    with asked(args) as node:
        databases = list(node.rows(proto.DS_DATABASES()))
        reader = node.ask(proto.DS_READER())
        generations: list[proto.GenerationRow] = []
        name = args.database or _MESSAGES
        can_be_read = any(one.name == name and one.is_open for one in databases)
        if args.database is not None or can_be_read:
            generations = list(node.rows(proto.DS_GENERATIONS(proto.DatabaseWanted(name))))
    if args.json:
        print_json({"databases": databases, "reader": reader, "generations": generations})
    else:
        _print(databases, reader, name, generations)
    return 1 if any(one.problem for one in databases) else 0


def _print(
    databases: list[proto.DatabaseRow], reader: proto.ReaderState, name: str, generations: list[proto.GenerationRow]
) -> None:
    if databases:
        print_rows(databases, _DATABASES, False)
    else:
        print("nothing is stored on this node")
    if reader.is_enabled:
        state = f"process {reader.pid}" if reader.pid is not None else "its process does not run"
        print(f"\nstorage reader: {state}, {text_of(reader.bind)}, {reader.counts.get('restarts', 0):,.0f} restarts")
    if generations:
        print(f"\ngenerations of {text_of(name)}")
        print_rows(generations, _GENERATIONS, False)
