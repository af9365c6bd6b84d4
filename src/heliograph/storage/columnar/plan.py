"""Divides a bounded read among streams: how far each may be read next.

A plan advances all streams to one commit time. So it is fair whatever the sizes of the streams, and what is read
together was stored at about the same time, which keeps event-time watermarks of a consumer close together. The time is
found by bisection: how much of a stream is before a time is one seek (see `extent.extent_until`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import read_parts
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.extent import Extent, extent_until, newest
from heliograph.storage.columnar.salvage import PLACE_MAX, is_damage, nearest_header, place, place_parts
from heliograph.storage.engine import Rdict, records
from heliograph.storage.interface import ROW_MAX, SEQUENCE_MAX, TIME_MAX, Position, Stream, StreamId
from heliograph.storage.topic_filter import TopicFilter

_GOOD_ENOUGH: Final = 0.9  # of what is allowed; more steps would cost more than they gain
_STEPS_MAX: Final = 64

TimeShare: TypeAlias = tuple[int, float]
"""A commit time in µs, and how much of the limits is taken up to it."""


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
    """How far each stream may be read, and how many rows are left behind that."""

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
        """How many rows follow, up to the end of what is asked for."""
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
        """What the plan says when it reaches `time`."""
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
        database: The open database.
        catalog: Its catalog, refreshed.
        filters: Topic filters; streams of any of them count.
        start: Commit time in µs to begin with, or None.
        end: Commit time in µs to stop before, or None.
        positions: Where the reader is; streams that are absent begin at `start`.
        limits: The most to take.
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
