"""Finding the topics of a filter in a keyed database, a bounded step at a time.

The topic structure says which streams can hold them. Inside a stream the walk skips: where a level has the wrong name,
it goes straight to the next key that can be right. A walk keeps no iterator of RocksDB and no messages between its
steps, only the last key that it looked at, so any number of them may stand still for as long as they like.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from heliograph.storage.engine import Rdict, RdictIter
from heliograph.storage.keyed.changes import PendingChanges, place_of
from heliograph.storage.keyed.records import BEHIND_SEPARATOR, SEPARATOR, end_of, levels_in, message_key, stream_of
from heliograph.storage.keyed.topics import KeyedTopics
from heliograph.storage.topic_structure import ANY, REST

_ANY: Final = ANY.encode()
_REST: Final = REST.encode()
_DOLLAR: Final = b"$"
_BEHIND_DOLLAR: Final = b"%"
_STEPS_BEFORE_SEEK: Final = 2  # what is skipped is often one key, and a step costs a tenth of a seek
SEEK_COST: Final = 8  # in steps


class StreamPattern:
    """What a filter says of the topics of one stream of a structure such as `weather/+/obs`; made for each walk."""

    def __init__(self, structure: str, topic_filter: str) -> None:
        levels = topic_filter.split("/")
        self.keeps_dollar = levels[0] not in (ANY, REST)  # [MQTT-4.7.2-1]
        if structure != REST:
            levels = _narrowed(structure.split("/"), levels)
        encoded = [level.encode("utf-8") for level in levels]
        self.is_open = encoded[-1] == _REST
        self.levels = encoded[:-1] if self.is_open else encoded
        self._last_any = _last_any(self.levels, len(self.levels))

    @property
    def first(self) -> bytes:
        literal = []
        for level in self.levels:
            if level == _ANY:
                break
            literal.append(level)
        return SEPARATOR.join(literal)

    def judge(self, topic: bytes) -> bytes | None:
        """Where to go on behind a topic: with itself if it matches, further on if not; None for nowhere."""
        levels = topic.split(SEPARATOR)
        if not self.keeps_dollar and topic.startswith(_DOLLAR):
            return _BEHIND_DOLLAR
        for position, level in enumerate(self.levels):
            if position == len(levels):  # a topic that ends too early, where topics of any length are
                return topic + SEPARATOR + (b"" if level == _ANY else level)
            name = levels[position]
            if level in (_ANY, name):
                continue
            if name < level:
                return SEPARATOR.join([*levels[:position], level])
            return self._behind(levels, _last_any(self.levels, position))
        if len(levels) > len(self.levels) and not self.is_open:
            return self._behind(levels, self._last_any)
        return topic

    def _behind(self, levels: Sequence[bytes], position: int) -> bytes | None:
        """Behind all topics that have these names up to `position`, which is a '+' of the filter, or -1."""
        return None if position < 0 else SEPARATOR.join(levels[: position + 1]) + BEHIND_SEPARATOR


class Found(NamedTuple):
    """What a step of a walk gives: records by their keys, and how much was looked at for them, in keys."""

    records: list[tuple[bytes, bytes]]
    cost: int


class KeyedWalk:
    """A walk through the topics of one filter, in the order of streams and of topics in them.

    Owned by its reader; makes no claim on the database between two steps.

    Args:
        streams: Where those of the filter can be, in order.
        after: The key behind which it begins; empty for all.
    """

    def __init__(self, topic_filter: str, topics: KeyedTopics, streams: Sequence[int], after: bytes = b"") -> None:
        self._filter = topic_filter
        self._topics = topics
        self._streams = streams
        self._pattern: StreamPattern | None = None
        self._pattern_for = 0
        self._skipping = False  # `after` was not looked at: it is where to begin
        self.after = after
        self.is_done = not streams

    def go_back_to(self, after: bytes) -> None:
        """Go on behind a key that was found before."""
        self.after = after
        self._skipping = False
        self.is_done = not self._streams

    def step(self, rocks: Rdict, pending: PendingChanges, count: int, size_bytes: int, cost: int) -> Found:
        """Look on, as far as one of the limits allows; there may be more unless `is_done`.

        Args:
            pending: What is not in it yet.
            count: How many records to find.
            size_bytes: How large they may become, but for the last.
            cost: How many keys to look at.
        """
        cursor = _Cursor(rocks, pending)
        found: list[tuple[bytes, bytes]] = []
        while not self.is_done and cursor.cost < cost:
            key = self._next(cursor)
            if key is None:
                continue
            record = cursor.record
            found.append((key, record))
            size_bytes -= len(record)
            if len(found) >= count or size_bytes <= 0:
                break
        return Found(found, cursor.cost)

    def _next(self, cursor: "_Cursor") -> bytes | None:
        """Look at the next key: itself if it matches."""
        pattern, stream = self._begin()
        if pattern is None:
            self.is_done = True
            return None
        target = self.after if self._skipping else self.after + b"\0"
        key = cursor.go_to(target)
        if key is None or key >= end_of(stream):
            self._leave(stream)
            return None
        topic = levels_in(key)
        further = pattern.judge(topic)
        if further is None:
            self._leave(stream)
            return None
        self._skipping = further is not topic
        self.after = message_key(stream, further) if self._skipping else key
        return None if self._skipping else key

    def _begin(self) -> tuple[StreamPattern | None, int]:
        """The pattern for the stream of `after`, or for the next one, with `after` moved to its beginning."""
        number = stream_of(self.after) if self.after else 0
        if self._pattern is not None and number == self._pattern_for:
            return self._pattern, number
        place = bisect_left(self._streams, number)
        if place == len(self._streams):
            return None, 0
        stream = self._streams[place]
        self._pattern = StreamPattern(self._topics.structure_of(stream) or REST, self._filter)
        self._pattern_for = stream
        first = message_key(stream, self._pattern.first)
        if stream != number or self.after < first:
            self.after = first
            self._skipping = True
        return self._pattern, stream

    def _leave(self, stream: int) -> None:
        self.after = message_key(stream + 1, b"")
        self._skipping = True

    def __repr__(self) -> str:
        return f"KeyedWalk({self._filter!r} in {len(self._streams)} streams, behind {self.after!r})"


class _Cursor:
    """A place among the keys of RocksDB and those of the pending changes, for one step of one walk."""

    def __init__(self, rocks: Rdict, pending: PendingChanges) -> None:
        self._rocks = rocks
        self._pending = pending
        self._keys = pending.sorted_keys()
        self._place = -1
        self._walk: RdictIter | None = None
        self._stored: bytes | None = None  # the key that the iterator stands at
        self.record = b""
        self.cost = 0

    def go_to(self, target: bytes) -> bytes | None:
        """The first key that is not below `target` and has a message, which is then `record`. Targets rise."""
        self._seek(target)
        self.cost += 1
        while True:
            pending = self._keys[self._place] if self._place < len(self._keys) else None
            stored = self._stored
            if pending is None and stored is None:
                return None
            if pending is None or (stored is not None and stored < pending):
                assert stored is not None
                assert self._walk is not None
                self.record = self._walk.value()
                return stored
            change = self._pending.get(pending)
            if change is not None and change.record is not None:
                self.record = change.record
                return pending
            self._place += 1  # it was removed
            self.cost += 1
            if stored == pending:
                self._advance()

    def _seek(self, target: bytes) -> None:
        if self._place < 0 or (self._place < len(self._keys) and self._keys[self._place] < target):
            self._place = place_of(self._keys, target)
        walk = self._walk
        if walk is None:
            self._walk = walk = self._rocks.iter()
            self._jump(target)
            return
        for _ in range(_STEPS_BEFORE_SEEK):
            if self._stored is None or self._stored >= target:
                return
            self._advance()
        if self._stored is not None and self._stored < target:
            self._jump(target)

    def _jump(self, target: bytes) -> None:
        assert self._walk is not None
        self._walk.seek(target)
        self.cost += SEEK_COST
        self._settle()

    def _advance(self) -> None:
        assert self._walk is not None
        self._walk.next()
        self.cost += 1
        self._settle()

    def _settle(self) -> None:
        assert self._walk is not None
        if self._walk.valid():
            self._stored = self._walk.key()
            return
        self._walk.status()
        self._stored = None


def _narrowed(structure: Sequence[str], levels: Sequence[str]) -> list[str]:
    """A filter as it is for topics of one structure: of as many levels, and with names wherever the structure has."""
    names = list(levels[:-1]) + [ANY] * (len(structure) - len(levels) + 1) if levels[-1] == REST else list(levels)
    return [name if name != ANY else level for name, level in zip(structure, names, strict=True)]


def _last_any(levels: Sequence[bytes], end: int) -> int:
    """The last level before `end` that is a '+'; -1 for none."""
    return next((position for position in range(end - 1, -1, -1) if levels[position] == _ANY), -1)
