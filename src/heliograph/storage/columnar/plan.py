"""Divides a bounded read among streams, forward or back in time, and cuts large ranges into pieces for several readers.

A plan advances all streams to one commit time. So it is fair whatever the sizes of the streams, and what is read
together was stored at about the same time, which keeps event-time watermarks of a consumer close together. The time is
found by bisection: how much of a stream is before a time is one seek (see `extent.extent_until`).

The commit times of a database only grow, each commit has its own in all shards, and becomes visible whole. So a time
is all that a reader must remember to go on: what it has read was stored then or later, whatever is stored meanwhile.
A plan back in time begins near the newest commit, since what lies far back may be very much more.

Pieces end where commits end. How much is before a time is one seek (see `extent.extent_until`), so a cut costs a few
seeks, however long the range is.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import read_parts
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.extent import Extent, extent_until, newest
from heliograph.storage.columnar.salvage import PLACE_MAX, is_damage, nearest_header, place, place_parts
from heliograph.storage.engine import Rdict, records
from heliograph.storage.interface import BEGINNING, ROW_MAX, SEQUENCE_MAX, TIME_MAX, Position, Stream, StreamId
from heliograph.storage.topic_filter import TopicFilter

_GOOD_ENOUGH: Final = 0.9  # of what is allowed; more steps would cost more than they gain
_STEPS_MAX: Final = 64
TimeShare: TypeAlias = tuple[int, float]
"""A commit time in µs, and how much of the limits is taken up to it."""
_REACH_US: Final = 1_000_000  # how far back the first guess is; each further one reaches twice as far


#: Pieces of one stream at most: more than the cores of any cluster, and few enough to be planned in a second.
PIECES_MAX: Final = 1024
_CLOSE_ENOUGH: Final = 0.1  # of the size of a piece
_CUT_STEPS_MAX: Final = 24


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The most that one plan may take; None for no limit."""

    messages: int | None = None
    message_bytes: int | None = None

    def share(self, taken: Extent) -> float:
        """How much of the limit is taken: above 1.0 is too much."""
        shares = [0.0]
        if self.messages is not None:
            shares.append(taken.rows / self.messages if self.messages else 2.0 * taken.rows)
        if self.message_bytes is not None:
            shares.append(taken.message_bytes / self.message_bytes if self.message_bytes else 2.0 * taken.message_bytes)
        return max(shares)


@dataclass(frozen=True, slots=True)
class Step:
    """What a plan says about one stream: read up to `position`, which is at most so many rows and bytes."""

    position: Position
    rows: int
    message_bytes: int


@dataclass(frozen=True, slots=True)
class StreamPlan:
    steps: Mapping[StreamId, Step]
    remaining_rows: int


class StreamCursor:
    """One stream of a plan: where its reader is and what follows. Lives as long as the plan is made."""

    def __init__(self, database: Rdict, stream: Stream, given: Position, start: int | None, end: int | None) -> None:
        self.stream = stream
        self.given = given
        self.base = max(given, Position.before(start or 0))
        self.last = newest(database, stream.id, TIME_MAX if end is None else max(end - 1, 0)) or self.base
        self.read = Extent(0, 0)
        self.total = Extent(0, 0)
        if self.last > self.base:
            self.read = extent_until(database, stream.id, self.base)
            self.total = extent_until(database, stream.id, self.last)

    @property
    def rows(self) -> int:
        return self.total.rows - self.read.rows

    def until(self, database: Rdict, time: int) -> Extent:
        """How much follows that was stored at or before `time`."""
        if time >= self.last.time:
            reached = self.total
        elif time < self.base.time:
            reached = self.read
        else:
            reached = extent_until(database, self.stream.id, Position(time, SEQUENCE_MAX, ROW_MAX))
        return Extent(max(0, reached.rows - self.read.rows), max(0, reached.message_bytes - self.read.message_bytes))

    def since(self, database: Rdict, time: int) -> Extent:
        """How much follows that was stored at `time` or later, up to the end of what is asked for."""
        if time > self.last.time:
            return Extent(0, 0)
        before = self.until(database, time - 1)
        message_bytes = self.total.message_bytes - self.read.message_bytes - before.message_bytes
        return Extent(max(0, self.rows - before.rows), max(0, message_bytes))

    def step(self, database: Rdict, time: int) -> Step:
        taken = self.until(database, time)
        if not taken.rows:
            return Step(self.given, 0, 0)
        reached = self.last if time >= self.last.time else newest(database, self.stream.id, time) or self.given
        return Step(reached, taken.rows, taken.message_bytes)


def plan_read(
    database: Rdict,
    catalog: Catalog,
    filters: Sequence[TopicFilter],
    start: int | None,
    end: int | None,
    positions: Mapping[StreamId, Position],
    limits: ReadLimits,
    shards: Collection[int] | None = None,
) -> StreamPlan:
    """How far the streams of some filters may be read.

    Without limits, everything is taken. With limits, whole commits are taken in the order of their time, at least one
    if there is any, and of the streams of one shard only those of its oldest generation with something to read, so that
    a consumer that reads plan by plan keeps the replay rules.

    Args:
        start: Commit time in µs to begin with, or None.
        end: Commit time in µs to stop before, or None.
        positions: Where the reader is; streams that are absent begin at `start`.
        shards: The shards that count; None is all.
    """
    cursors = [
        StreamCursor(database, stream, positions.get(stream.id, Position(0, 0, 0)), start, end)
        for stream in catalog.streams(filters, start, end)
        if shards is None or stream.id.shard in shards
    ]
    waiting = sum(cursor.rows for cursor in cursors)
    unlimited = limits == ReadLimits()
    readable = cursors if unlimited else _oldest_of_each_shard(cursors)
    time = TIME_MAX if unlimited else _reachable_time(database, readable, limits)
    steps = {cursor.stream.id: Step(cursor.given, 0, 0) for cursor in cursors}
    steps |= {cursor.stream.id: cursor.step(database, time) for cursor in readable}
    return StreamPlan(steps, waiting - sum(step.rows for step in steps.values()))


def _oldest_of_each_shard(cursors: Sequence[StreamCursor]) -> list[StreamCursor]:
    oldest: dict[int, int] = {}
    for cursor in cursors:
        x, y = cursor.stream.rank
        if cursor.rows:
            oldest[x] = min(y, oldest.get(x, y))
    return [cursor for cursor in cursors if cursor.rows and cursor.stream.rank.y == oldest[cursor.stream.rank.x]]


def _reachable_time(database: Rdict, cursors: Sequence[StreamCursor], limits: ReadLimits) -> int:
    """The commit time up to which everything may be taken."""
    if not cursors:
        return TIME_MAX
    high = max(cursor.last.time for cursor in cursors)
    low = min(_first_time(database, cursor) for cursor in cursors)
    low_share, high_share = 0.0, limits.share(sum_of(cursor.until(database, high) for cursor in cursors))
    if high_share <= 1.0:
        return high
    return furthest_within(
        lambda time: limits.share(sum_of(cursor.until(database, time) for cursor in cursors)),
        (low, low_share),
        (high, high_share),
    )


def furthest_within(share_at: Callable[[int], float], near: TimeShare, far: TimeShare) -> int:
    """The time towards `far`, which is later or earlier, up to which about as much is taken as may be.

    Args:
        share_at: How much of the limits is taken from where the read begins up to a time; it grows towards `far`.
        near: A time within the limits, with its share.
        far: One beyond them.
    """
    (within, within_share), (beyond, beyond_share) = near, far
    for step in range(_STEPS_MAX):
        if abs(beyond - within) <= 1 or within_share >= _GOOD_ENOUGH:
            break
        middle = (within + beyond) // 2
        if step % 2 == 0:  # the rate is often even: guess by proportion, aiming a little low
            part = (0.97 - within_share) / (beyond_share - within_share)
            guess = within + int((beyond - within) * part)
            middle = min(max(guess, min(within, beyond) + 1), max(within, beyond) - 1)
        share = share_at(middle)
        if share <= 1.0:
            within, within_share = middle, share
        else:
            beyond, beyond_share = middle, share
    return within


def _first_time(database: Rdict, cursor: StreamCursor) -> int:
    """The time of the first block with rows behind the cursor."""
    stream = cursor.stream.id
    prefix = keys.block_prefix(*stream[1:])
    first = prefix + keys.tail(cursor.base.time, cursor.base.sequence)
    try:
        for key, value in records(database, first, prefix + keys.tail(TIME_MAX, SEQUENCE_MAX)):
            for time, sequence, *_ in read_parts(key, value):
                if extent_until(database, stream, Position(time, sequence, ROW_MAX)).rows > cursor.read.rows:
                    return time
    except Exception as error:
        if not is_damage(error):
            raise
        behind = nearest_header(database, stream, place(cursor.base.time, cursor.base.sequence) + 1, PLACE_MAX)
        return cursor.last.time if behind is None else place_parts(behind[0])[0]
    return cursor.last.time


def sum_of(parts: Iterable[Extent]) -> Extent:
    """How much lies in several streams together."""
    rows = message_bytes = 0
    for part in parts:
        rows += part.rows
        message_bytes += part.message_bytes
    return Extent(rows, message_bytes)


@dataclass(frozen=True, slots=True)
class NewestPlan:
    """The newest commits within limits: everything that was stored in [since, until).

    Attributes:
        since: The commit time in µs of the oldest of them, or one before; `until` where there are none.
        until: A commit time in µs behind the newest of them.
        streams: How much each stream has of them; only those that have some.
        remaining_rows: How many rows are before.
    """

    since: int
    until: int
    streams: Mapping[StreamId, Extent]
    remaining_rows: int


def plan_newest(
    database: Rdict,
    catalog: Catalog,
    filters: Sequence[TopicFilter],
    start: int | None,
    end: int | None,
    limits: ReadLimits,
    shards: Collection[int] | None = None,
) -> NewestPlan:
    """Which of the newest commits of some filters may be taken: whole ones, at least one if there is any.

    To go on, ask again with `since` as `end`.

    Args:
        start: Commit time in µs to go back to, or None.
        end: Commit time in µs before which the newest are wanted, or None.
        shards: The shards that count; None is all.
    """
    begin = start or 0
    cursors = [
        cursor
        for stream in catalog.streams(filters, start, end)
        if shards is None or stream.id.shard in shards
        if (cursor := StreamCursor(database, stream, BEGINNING, start, end)).rows > 0
    ]
    if not cursors:
        return NewestPlan(begin, begin, {}, 0)
    newest = max(cursor.last.time for cursor in cursors)
    since = _reachable_since(database, cursors, limits, begin, newest)
    streams = {cursor.stream.id: cursor.since(database, since) for cursor in cursors}
    taken = {stream: extent for stream, extent in streams.items() if extent.rows}
    remaining = sum(cursor.rows for cursor in cursors) - sum(extent.rows for extent in taken.values())
    return NewestPlan(since, newest + 1, taken, remaining)


def _reachable_since(
    database: Rdict, cursors: Sequence[StreamCursor], limits: ReadLimits, begin: int, newest: int
) -> int:
    """The commit time since which everything may be taken."""

    def share_since(time: int) -> float:
        return limits.share(sum_of(cursor.since(database, time) for cursor in cursors))

    if share_since(begin) <= 1.0:
        return begin
    high, high_share = newest, share_since(newest)
    low = reach = 0
    low_share = high_share
    while low_share <= 1.0:
        reach = 2 * reach or _REACH_US
        low = max(begin, newest - reach)
        low_share = share_since(low)
        if low_share <= 1.0:
            high, high_share = low, low_share
    return furthest_within(share_since, (high, high_share), (low, low_share))


def split_range(database: Rdict, stream: StreamId, after: Position, to: Position, limits: ReadLimits) -> list[Step]:
    """Cut the rows of a stream in (after, to] into pieces within limits; at least one piece, the last ends at `to`.

    A piece exceeds the limits only by what one commit holds, or where there would be more than `PIECES_MAX`.
    """
    begin, end = extent_until(database, stream, after), extent_until(database, stream, to)
    whole = _between(begin, end)
    count = min(PIECES_MAX, math.ceil(limits.share(whole)))
    pieces: list[Step] = []
    done, reached = begin, after
    for number in range(1, count):
        position = _cut_near(database, stream, reached, to, begin, end, number / count, 1 / count)
        if position is None:
            continue
        here = extent_until(database, stream, position)
        taken = _between(done, here)
        if taken.rows and here.rows < end.rows:
            pieces.append(Step(position, *taken))
            done, reached = here, position
    return [*pieces, Step(to, *_between(done, end))]


def _cut_near(
    database: Rdict,
    stream: StreamId,
    after: Position,
    to: Position,
    begin: Extent,
    end: Extent,
    part: float,
    size: float,
) -> Position | None:
    """The end of a commit between two positions, before which about this part of the rows and bytes lies."""
    last = newest(database, stream, to.time)
    low, high = after.time, to.time if last is None else min(to.time, last.time)
    if low == 0:
        low = _begin_of(database, stream, after, high)
    low_part, high_part = _part(begin, end, extent_until(database, stream, after)), 1.0
    for step in range(_CUT_STEPS_MAX):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        if step % 2 == 0 and high_part > low_part:  # the rate is often even: guess by proportion
            middle = low + int((high - low) * (part - low_part) / (high_part - low_part))
            middle = min(max(middle, low + 1), high - 1)
        here = _part(begin, end, extent_until(database, stream, Position(middle, SEQUENCE_MAX, ROW_MAX)))
        if here <= part:
            low, low_part = middle, here
        else:
            high, high_part = middle, here
        if abs(part - here) <= size * _CLOSE_ENOUGH:
            low = middle
            break
    position = newest(database, stream, low)
    return position if position is not None and after < position < to else None


def _begin_of(database: Rdict, stream: StreamId, after: Position, high: int) -> int:
    """A time shortly before the first row behind a position; found by doubling the distance from the end."""
    read = extent_until(database, stream, after).rows
    distance = 1_000_000
    while distance < high:
        if extent_until(database, stream, Position(high - distance, SEQUENCE_MAX, ROW_MAX)).rows <= read:
            return high - distance
        distance *= 2
    return 0


def _part(begin: Extent, end: Extent, here: Extent) -> float:
    """How much of a range is before a place, in bytes; in rows where there are no bytes."""
    whole, taken = _between(begin, end), _between(begin, here)
    if whole.message_bytes:
        return taken.message_bytes / whole.message_bytes
    return taken.rows / whole.rows if whole.rows else 1.0


def _between(begin: Extent, end: Extent) -> Extent:
    return Extent(max(0, end.rows - begin.rows), max(0, end.message_bytes - begin.message_bytes))
