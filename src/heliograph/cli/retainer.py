"""`heliograph retainer`: the retained messages on a stopped node's disk: how many, which, and taking some away."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from heliograph.cli.data_dir import add_action, run_in_data_dir
from heliograph.cli.usage import Actions
from heliograph.storage.errors import UnknownDatabaseError
from heliograph.storage.keyed.records import stored_message, times
from heliograph.storage.keyed.table import KeyedTable, keyed_path
from heliograph.storage.repair.message_database import node_is_stopped

_DATABASE: Final = "retained"
_EVERYTHING: Final = "#"
_PAGE: Final = 1000
_PAGE_BYTES: Final = 8 << 20
_COST: Final = 100_000
_SECOND_US: Final = 1_000_000


def add_parser(subparsers: Actions) -> None:
    """Add `retainer` and its actions to the command line."""
    parser = subparsers.add_parser(
        "retainer",
        help="show and delete retained messages",
        description="Show and delete the retained messages in a node's data directory. The node must be stopped.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = add_action(actions, "info", "say how many there are", "Say how many there are and what they take.")
    info.set_defaults(act=_info)
    ls = add_action(actions, "ls", "list them", "List the retained messages of a topic filter, in the order of topics.")
    _filter_argument(ls, default=_EVERYTHING)
    ls.add_argument("--limit", type=int, default=100, metavar="N", help="how many at most; 0 for all (default 100)")
    ls.set_defaults(act=_ls)
    delete = add_action(
        actions,
        "delete",
        "delete some",
        "Delete the retained messages of a topic filter. Wildcards do not match topics that begin with '$'.",
    )
    _filter_argument(delete)
    delete.add_argument("--dry-run", action="store_true", help="only say how many it would be")
    delete.set_defaults(act=_delete)


def run(args: argparse.Namespace) -> int:
    """Carry out an action; the exit code."""
    act: Callable[[argparse.Namespace, KeyedTable], int] = args.act

    def act_on(data_dir: Path) -> int:
        with _opened(data_dir) as table:
            return act(args, table)

    return run_in_data_dir(args, act_on)


def _filter_argument(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    nargs, said = (None, "") if default is None else ("?", f"; default {default}")
    parser.add_argument("filter", nargs=nargs, default=default, metavar="FILTER", help=f"a topic filter{said}")


@contextmanager
def _opened(data_dir: Path) -> Iterator[KeyedTable]:
    """The table of a node that does not run."""
    path = keyed_path(data_dir) / _DATABASE
    if not path.is_dir():
        raise UnknownDatabaseError("no message is retained on the disk there", database=_DATABASE, path=path)
    table = KeyedTable(_DATABASE, path)
    with node_is_stopped(data_dir, _DATABASE):
        table.open()
        try:
            yield table
        finally:
            table.close()


def _info(args: argparse.Namespace, table: KeyedTable) -> int:
    facts = {"messages": len(table), "bytes": table.size_bytes, "streams": table.topics.stream_count}
    if args.json:
        print(json.dumps(facts))
    else:
        print(f"{facts['messages']:,} messages, {facts['bytes']:,} bytes, {facts['streams']:,} streams of topics")
    return 0


def _ls(args: argparse.Namespace, table: KeyedTable) -> int:
    for number, (key, record) in enumerate(_found(table, args.filter)):
        if number == args.limit != 0:
            print(f"heliograph: there are more than {args.limit}; see --limit", file=sys.stderr)
            break
        message = stored_message(key, record)
        expires_us = times(record).expires_us
        facts = {
            "topic": message.topic,
            "qos": message.qos,
            "bytes": len(message.payload),
            "clientid": message.clientid,
            "received_at": _time(message.received_at),
            "expires_at": _time(expires_us) if expires_us else None,
        }
        if args.json:
            print(json.dumps(facts, ensure_ascii=False))
        else:
            expiry = f", expires {facts['expires_at']}" if expires_us else ""
            said = (
                f"{len(message.payload)} bytes, QoS {message.qos}, from {message.clientid!r} at {facts['received_at']}"
            )
            print(f"{message.topic}  {said}{expiry}")
    return 0


def _delete(args: argparse.Namespace, table: KeyedTable) -> int:
    count = 0
    keys: list[bytes] = []
    for key, _ in _found(table, args.filter):
        keys.append(key)
        count += 1
        if len(keys) == _PAGE:
            _remove(table, keys, args.dry_run)
    _remove(table, keys, args.dry_run)
    if args.json:
        print(json.dumps({"deleted": 0 if args.dry_run else count, "found": count}))
    else:
        print(f"{count:,} messages {'would be' if args.dry_run else 'were'} deleted")
    return 0


def _remove(table: KeyedTable, keys: list[bytes], is_tried: bool) -> None:
    if not is_tried:
        table.commit([change for key in keys if (change := table.remove_key(key)) is not None])
    keys.clear()


def _found(table: KeyedTable, topic_filter: str) -> Iterator[tuple[bytes, bytes]]:
    walk = table.walk(topic_filter)
    while not walk.is_done:
        yield from table.step(walk, _PAGE, _PAGE_BYTES, _COST).records


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds // _SECOND_US, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
