"""`heliograph retainer`: the retained messages of a node: how many, which, and taking some away.

A node that runs is asked; of one that is stopped, its disk is read.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from heliograph.cli.ctl.times import time_of
from heliograph.cli.data_dir import add_action, run_in_data_dir
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import retained as proto
from heliograph.rpc.client import RpcClient
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError
from heliograph.rpc.socket_path import CONTROL_SOCKET
from heliograph.storage.errors import UnknownDatabaseError
from heliograph.storage.keyed.records import stored_message, times
from heliograph.storage.keyed.table import KeyedTable, keyed_path
from heliograph.storage.repair.message_database import node_is_stopped

_DATABASE: Final = "retained"
_EVERYTHING: Final = "#"
_PAGE: Final = 1000
_PAGE_BYTES: Final = 8 << 20
_COST: Final = 100_000


class _Messages(Protocol):
    """Retained messages, of a node or on a disk."""

    def info(self) -> proto.RetainedInfo:
        """How many there are."""

    def rows(self, topic_filter: str) -> Iterator[proto.RetainedRow]:
        """Those of a filter."""

    def delete(self, topic_filter: str, is_tried: bool) -> int:
        """Delete those of a filter, or only count them; how many there are."""


def add_parser(subparsers: Actions) -> None:
    """Add `retainer` and its actions to the command line."""
    parser = subparsers.add_parser(
        "retainer",
        help="show and delete retained messages",
        description="Show and delete the retained messages of a node. One that runs is asked; of one that is stopped, "
        "the data directory is read. `heliograph ctl retainer` shows more of one that runs.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_action(actions, _info, "info", "say how many there are")
    ls = add_action(actions, _ls, "ls", "list them")
    _filter_argument(ls, default=_EVERYTHING)
    ls.add_argument("--limit", type=int, default=100, metavar="N", help="how many at most; 0 for all (default 100)")
    delete = add_action(actions, _delete, "delete", "delete some")
    _filter_argument(delete)
    delete.add_argument("--dry-run", action="store_true", help="only say how many it would be")


def run(args: argparse.Namespace) -> int:
    """Carry out an action; the exit code."""
    act: Callable[[argparse.Namespace, _Messages], int] = args.act

    def act_on(data_dir: Path) -> int:
        try:
            with _found(data_dir) as messages:
                return act(args, messages)
        except RpcError as error:
            print(f"heliograph: [{error.code}] {error.message}", file=sys.stderr)
            return 1

    return run_in_data_dir(args, act_on)


def _filter_argument(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    nargs, default_words = (None, "") if default is None else ("?", f"; default {default}")
    parser.add_argument("filter", nargs=nargs, default=default, metavar="FILTER", help=f"a topic filter{default_words}")


@contextmanager
def _found(data_dir: Path) -> Iterator[_Messages]:
    """The messages of the node that runs there, or those on the disk of one that is stopped."""
    try:
        client = RpcClient(data_dir / CONTROL_SOCKET, "heliograph retainer")
    except UnreachableError:
        with _opened(data_dir) as table:
            yield _OnDisk(table)
        return
    with client:
        yield _OfNode(client)


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


class _OfNode:
    """The messages of a node that runs."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client

    def info(self) -> proto.RetainedInfo:
        return self._client.ask(proto.RETAINER_INFO())

    def rows(self, topic_filter: str) -> Iterator[proto.RetainedRow]:
        return self._client.rows(proto.RETAINER_TOPICS(proto.RetainedTopics(topic_filter)))

    def delete(self, topic_filter: str, is_tried: bool) -> int:
        wanted = proto.RetainedClean(topic_filter, is_tried)
        return self._client.ask(proto.RETAINER_CLEAN(wanted)).found


class _OnDisk:
    """The messages on the disk of a node that is stopped."""

    def __init__(self, table: KeyedTable) -> None:
        self._table = table

    def info(self) -> proto.RetainedInfo:
        table = self._table
        return proto.RetainedInfo(len(table), table.size_bytes, table.topics.stream_count, "disc", {})

    def rows(self, topic_filter: str) -> Iterator[proto.RetainedRow]:
        for key, record in self._walk(topic_filter):
            message = stored_message(key, record)
            yield proto.RetainedRow(
                message.topic,
                message.qos,
                len(message.payload),
                message.clientid,
                message.received_at,
                times(record).expires_us,
            )

    def delete(self, topic_filter: str, is_tried: bool) -> int:
        count = 0
        keys: list[bytes] = []
        for key, _ in self._walk(topic_filter):
            keys.append(key)
            count += 1
            if len(keys) == _PAGE:
                self._remove(keys, is_tried)
        self._remove(keys, is_tried)
        return count

    def _remove(self, keys: list[bytes], is_tried: bool) -> None:
        table = self._table
        if not is_tried:
            table.commit([change for key in keys if (change := table.remove_key(key)) is not None])
        keys.clear()

    def _walk(self, topic_filter: str) -> Iterator[tuple[bytes, bytes]]:
        walk = self._table.walk(topic_filter)
        while not walk.is_done:
            yield from self._table.step(walk, _PAGE, _PAGE_BYTES, _COST).records


def _info(args: argparse.Namespace, messages: _Messages) -> int:
    """Say how many there are and what they take."""
    info = messages.info()
    if args.json:
        print(json.dumps({"messages": info.messages, "bytes": info.bytes, "streams": info.streams}))
    else:
        print(f"{counted(info.messages, 'message')}, {info.bytes:,} bytes, {info.streams:,} streams of topics")
    return 0


def _ls(args: argparse.Namespace, messages: _Messages) -> int:
    """List the retained messages of a topic filter, in the order of topics."""
    for number, row in enumerate(messages.rows(args.filter)):
        if number == args.limit != 0:
            print(f"heliograph: there are more than {args.limit}; see --limit", file=sys.stderr)
            break
        facts = {
            "topic": row.topic,
            "qos": row.qos,
            "bytes": row.bytes,
            "clientid": row.clientid,
            "received_at": time_of(row.received_at),
            "expires_at": time_of(row.expires_at) or None,
        }
        if args.json:
            print(json.dumps(facts, ensure_ascii=False))
        else:
            expiry = f", expires {facts['expires_at']}" if row.expires_at else ""
            text = f"{row.bytes} bytes, QoS {row.qos}, from {row.clientid!r} at {facts['received_at']}"
            print(f"{row.topic}  {text}{expiry}")
    return 0


def _delete(args: argparse.Namespace, messages: _Messages) -> int:
    """Delete the retained messages of a topic filter. Wildcards do not match topics that begin with '$'."""
    count = messages.delete(args.filter, args.dry_run)
    if args.json:
        print(json.dumps({"deleted": 0 if args.dry_run else count, "found": count}))
    else:
        were = "would be" if args.dry_run else "was" if count == 1 else "were"
        print(f"{counted(count, 'message')} {were} deleted")
    return 0
