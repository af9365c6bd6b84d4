"""Cuts ranges of streams into pieces of about the same size, so that several readers share a large read.

Pieces end where commits end. How much is before a time is one seek (see `extent.extent_until`), so a cut costs a few
seeks, however long the range is.
"""

import math
from typing import Final

from heliograph.storage.columnar.extent import Extent, extent_until, newest
from heliograph.storage.columnar.plan import ReadLimits, Step
from heliograph.storage.engine import Rdict
from heliograph.storage.interface import ROW_MAX, SEQUENCE_MAX, Position, StreamId

#: Pieces of one stream at most: more than the cores of any cluster, and few enough to be planned in a second.
PIECES_MAX: Final = 1024

_CLOSE_ENOUGH: Final = 0.1  # of the size of a piece
_STEPS_MAX: Final = 24


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
    for step in range(_STEPS_MAX):
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
