"""The tree of topics, a level at a time: of what is stored, and of the filters that are routed."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.broker.subscription import FilterEntry
from heliograph.channel.context import ChannelContext
from heliograph.control.proto_v1 import topic_tree as proto
from heliograph.control.slices import in_slices
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, RpcError
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.topic_levels import LevelTotals, SmallestNames, is_shared, level_totals

LIMIT_MAX: Final = 1001
_RECENT_S_MAX: Final = 86_400
_LEVELS_MAX: Final = 65_536
_FILTERS_MAX: Final = 100_000  # that are looked at for one page
_TAKEN: Final = 16  # filters at once


def methods(context: ChannelContext, database: Callable[[str], LocalDatabase]) -> list[Method]:
    """What can be asked: `topic_tree.stored`, `topic_tree.state`, `topic_tree.routed`.

    Args:
        database: The database of messages of a name; raises where there is none.
    """
    answers = TopicTreeAnswers(context, database)
    return [
        proto.TOPIC_TREE_STORED.by(answers.stored),
        proto.TOPIC_TREE_STATE.by(answers.state),
        proto.TOPIC_TREE_ROUTED.by(answers.routed),
    ]


class TopicTreeAnswers:
    def __init__(self, context: ChannelContext, database: Callable[[str], LocalDatabase]) -> None:
        self._context = context
        self._database = database

    def stored(self, args: proto.StoredLevelsWanted, call: Call) -> Iterator[Sequence[proto.StoredLevelRow]]:
        names = _names(args.below, args.after, args.limit)
        if not 1 <= args.recent_s <= _RECENT_S_MAX:
            raise RpcError(BAD_ARGUMENTS, f"recent_s is {args.recent_s}; 1 to {_RECENT_S_MAX} is valid")
        since = time.time_ns() // 1000 - args.recent_s * 1_000_000
        rocks, catalog = self._database(args.database).contents()
        rows = level_totals(rocks, catalog, args.below, names, since)
        return in_slices((None if one is None else _row(one) for one in rows), lambda row: len(row.name))

    def state(self, args: proto.StoredLevel, call: Call) -> proto.StoredLevelState:
        _check_depth(args.below)
        _, catalog = self._database(args.database).contents()
        has_messages = any(generation.structure.stream_count for generation in catalog.generations())
        return proto.StoredLevelState(is_shared(catalog, args.below), has_messages)

    def routed(self, args: proto.RoutedLevelsWanted, call: Call) -> Iterator[Sequence[proto.RoutedLevelRow]]:
        names = _names(args.below, args.after, args.limit)
        return in_slices(self._routed(args.below, names), lambda row: len(row.name))

    def _routed(self, below: Sequence[str], names: SmallestNames) -> Iterator[proto.RoutedLevelRow | None]:
        start = "".join(f"{level}/" for level in below)
        walk = self._context.broker.router.filters.walk()
        found: dict[str, _RoutedLevel] = {}
        looked = 0
        while looked < _FILTERS_MAX and (taken := walk.take(_TAKEN)):
            looked += len(taken)
            for entry in taken:
                _count(entry, start, names, found)
            yield None
        for name in names.names:
            yield found[name].row(name, is_partial=looked >= _FILTERS_MAX)


@dataclass(slots=True)
class _RoutedLevel:
    """What is routed at one name, while it is counted."""

    is_filter: bool = False
    has_children: bool = False
    filters: int = 0
    subscriptions: int = 0

    def row(self, name: str, *, is_partial: bool) -> proto.RoutedLevelRow:
        """The row of it."""
        counts = self.filters, self.subscriptions
        return proto.RoutedLevelRow(name, self.is_filter, self.has_children, *counts, is_partial)


def _count(entry: FilterEntry, start: str, names: SmallestNames, found: dict[str, _RoutedLevel]) -> None:
    topic_filter = entry.topic_filter
    if entry.is_empty() or not topic_filter.startswith(start):
        return
    name, slash, _ = topic_filter[len(start) :].partition("/")
    if not names.offer(name):
        return
    if name not in found:
        for gone in [one for one in found if one not in names] if len(found) > LIMIT_MAX * 2 else ():
            del found[gone]
        found[name] = _RoutedLevel()
    level = found[name]
    level.is_filter = level.is_filter or not slash
    level.has_children = level.has_children or bool(slash)
    level.filters += 1
    level.subscriptions += len(entry.subscriptions)


def _names(below: Sequence[str], after: str | None, limit: int) -> SmallestNames:
    _check_depth(below)
    if not 1 <= limit <= LIMIT_MAX:
        raise RpcError(BAD_ARGUMENTS, f"limit is {limit}; 1 to {LIMIT_MAX} is valid")
    return SmallestNames(after, limit)


def _check_depth(below: Sequence[str]) -> None:
    if len(below) > _LEVELS_MAX:
        raise RpcError(BAD_ARGUMENTS, f"{len(below)} levels; topics have at most {_LEVELS_MAX}")


def _row(one: LevelTotals) -> proto.StoredLevelRow:
    sums = (one.streams, one.messages, one.message_bytes, one.last, one.recent)
    return proto.StoredLevelRow(one.name, one.is_topic, one.has_children, *sums)
