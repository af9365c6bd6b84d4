"""One level of the learned topic structure of a database: which names it has, and what is stored below each.

The structure is never copied or walked whole: a page of names is picked first, then only what is below these is added
up, two or three seeks for each stream. Both are generators, so that the caller can do something else in between.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.storage.columnar.catalog import Catalog, Generation
from heliograph.storage.columnar.extent import extent_until, newest
from heliograph.storage.engine import Rdict
from heliograph.storage.interface import END, Position, StreamId
from heliograph.storage.topic_structure import REST, TopicLevel

_LOOKED_AT_ONCE: Final = 64  # names between two pauses


@dataclass(slots=True)
class LevelTotals:
    """A name at one level, and what is stored below it.

    Attributes:
        name: The name; `+` for those that are too many to be learned, `#` for topics that there was no room to learn.
        streams: Streams of it and of all levels below; likewise the others.
        last: When the newest message was stored, in microseconds since the epoch; None where there is none.
        recent: Messages stored since the time that was asked for.
    """

    name: str
    is_topic: bool = False
    has_children: bool = False
    streams: int = 0
    messages: int = 0
    message_bytes: int = 0
    last: int | None = None
    recent: int = 0


class SmallestNames:
    """The first `count_max` names after one, of all that are offered."""

    def __init__(self, after: str | None, count_max: int) -> None:
        self._after = after
        self._count_max = count_max
        self._known: set[str] = set()
        self.names: list[str] = []

    def offer(self, name: str) -> bool:
        """Take a name if it is among the first; whether it is now."""
        if name in self._known:
            return True
        if self._after is not None and name <= self._after:
            return False
        if len(self.names) >= self._count_max:
            if not self.names or name >= self.names[-1]:
                return False
            self._known.discard(self.names.pop())
        insort(self.names, name)
        self._known.add(name)
        return True

    def __contains__(self, name: str) -> bool:
        return name in self._known


def level_totals(
    database: Rdict, catalog: Catalog, below: Sequence[str], names: SmallestNames, since: int
) -> Iterator[LevelTotals | None]:
    """The names at one level, in their order, with their sums over all shards and generations.

    Args:
        below: The levels above, as they were learned: `+` is a level of its own. Empty for the first level.
        names: Those that are wanted; it is filled.
        since: From which time on messages are recent, in microseconds since the epoch.

    Yields:
        A name, or None after a piece of work.
    """
    for at, name in enumerate(_names(catalog, below)):
        names.offer(name)
        if at % _LOOKED_AT_ONCE == 0:
            yield None
    for name in names.names:
        totals = LevelTotals(name)
        for generation in catalog.generations():
            node = generation.structure.level_at([*below, name])
            if node is not None:
                totals.has_children = totals.has_children or bool(node.children)
                totals.is_topic = totals.is_topic or node.stream is not None
                for stream in _streams(catalog, generation, node):
                    _add(totals, database, stream, since)
                    yield None
        yield totals


def is_shared(catalog: Catalog, below: Sequence[str]) -> bool:
    """Whether messages below some names are stored now among those of other names, which stand together as `+`."""
    return any(
        structure.level_at(below) is None and structure.level_at(below, takes_any=True) is not None
        for structure in (catalog.current(shard).structure for shard in range(catalog.n_shards))
    )


def _names(catalog: Catalog, below: Sequence[str]) -> Iterator[str]:
    for generation in catalog.generations():
        node = generation.structure.level_at(below)
        if node is not None:
            yield from list(node.children)
            if not below and generation.structure.level_at([REST]) is not None:
                yield REST


def _streams(catalog: Catalog, generation: Generation, node: TopicLevel) -> Iterable[StreamId]:
    """The streams of the topics that end at a level or below it."""
    info = generation.info
    waiting = [node]
    while waiting:
        level = waiting.pop()
        waiting.extend(level.children.values())
        if level.stream is not None:
            yield StreamId(catalog.name, info.shard, info.number, level.stream)


def _add(totals: LevelTotals, database: Rdict, stream: StreamId, since: int) -> None:
    extent = extent_until(database, stream, END)
    last = newest(database, stream)
    totals.streams += 1
    totals.messages += extent.rows
    totals.message_bytes += extent.message_bytes
    if last is not None:
        totals.last = last.time if totals.last is None else max(totals.last, last.time)
        if last.time >= since:
            totals.recent += max(0, extent.rows - extent_until(database, stream, Position.before(since)).rows)
