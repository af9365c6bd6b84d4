"""Bounds a read that goes back in time: since which commit time everything is taken.

The commit times of a database only grow, each commit has its own in all shards, and becomes visible whole. So a time is
all that a reader must remember to go on: what it has read was stored then or later, whatever is stored meanwhile. As
for plans that go forward, the time is found by bisection (see `plan`); it begins near the newest commit, since what
lies far back may be very much more.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.extent import Extent
from heliograph.storage.columnar.plan import ReadLimits, StreamCursor, furthest_within, sum_of
from heliograph.storage.engine import Rdict
from heliograph.storage.interface import BEGINNING, StreamId
from heliograph.storage.topic_filter import TopicFilter

_REACH_US: Final = 1_000_000  # how far back the first guess is; each further one reaches twice as far


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
        database: The open database.
        catalog: Its catalog, refreshed.
        filters: Topic filters; streams of any of them count.
        start: Commit time in µs to go back to, or None.
        end: Commit time in µs before which the newest are wanted, or None.
        limits: The most to take.
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
