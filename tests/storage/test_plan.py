"""Plans: reading plan by plan reads everything once, within limits, in the order that ranks demand."""

import math
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from heliograph.storage.columnar.block import read_header
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.extent import Extent
from heliograph.storage.columnar.plan import NewestPlan, ReadLimits, StreamPlan, plan_newest, plan_read, split_range
from heliograph.storage.columnar.replay import BlockSlice, Selection, block_slices, select
from heliograph.storage.engine import Rdict, open_secondary
from heliograph.storage.interface import ROW_MAX, ColumnarOptions, DatabaseOptions, Position, StoredMessage, StreamId
from heliograph.storage.topic_filter import TopicFilter
from storage.messages import MakeMessage, message_maker
from support.cases import cases
from support.databases import open_database

EVERYTHING = [TopicFilter("#")]
ALL_LIMITS = [
    ReadLimits(),
    ReadLimits(messages=1),
    ReadLimits(messages=50),
    ReadLimits(messages=400),
    ReadLimits(None, 3_000),
    ReadLimits(300, 900),
]


class History:
    """A database with two shards and two generations, opened as a reader opens it."""

    def __init__(self, directory: Path) -> None:
        make = message_maker()
        random_numbers = random.Random(7)  # the same history in every run
        options = DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=(3,)))
        database = open_database(directory, options=options)
        self.rows = 0
        for commit in range(120):
            if commit == 60:
                database.add_generation()
            batch = [_random_message(make, random_numbers) for _ in range(random_numbers.randint(1, 40))]
            database.write(batch)
            self.rows += len(batch)
        database.close()
        self.rocks: Rdict = open_secondary(database.path, directory / "secondary")
        self.catalog = Catalog("messages", database.path)
        self.catalog.refresh(self.rocks)

    def plan(
        self,
        positions: dict[StreamId, Position],
        limits: ReadLimits,
        start: int | None = None,
        end: int | None = None,
    ) -> StreamPlan:
        return plan_read(self.rocks, self.catalog, EVERYTHING, start, end, positions, limits)

    def plan_newest(self, limits: ReadLimits, start: int | None = None, end: int | None = None) -> NewestPlan:
        return plan_newest(self.rocks, self.catalog, EVERYTHING, start, end, limits)

    def slices(self, stream: StreamId, after: Position, to: Position) -> Sequence[BlockSlice]:
        selection = select(self.catalog, stream, EVERYTHING)
        assert isinstance(selection, Selection)
        return list(block_slices(self.rocks, stream, selection, after, to))

    def rows_between(self, stream: StreamId, after: Position, to: Position) -> int:
        pieces = self.slices(stream, after, to)
        rows = [read_header(piece.key, piece.value).rows for piece in pieces]
        return sum(min(piece.end, count) - piece.first for piece, count in zip(pieces, rows, strict=True))


def _random_message(make: MakeMessage, numbers: random.Random) -> StoredMessage:
    topic = f"t/{min(numbers.randint(0, 9), numbers.randint(0, 9))}"
    return make(topic, b"x" * numbers.randint(0, 30), clientid=f"c{numbers.randint(0, 5)}")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """One history for all tests, which only read it."""
    return History(tmp_path_factory.mktemp("history"))


@cases("limits", ALL_LIMITS)
def test_reading_plan_by_plan_reads_everything_once(history: History, limits: ReadLimits) -> None:
    positions: dict[StreamId, Position] = {}
    planned = 0
    while True:
        plan = history.plan(positions, limits)
        taken = sum(step.rows for step in plan.steps.values())
        if not taken:
            break
        for stream, step in plan.steps.items():
            assert history.rows_between(stream, positions.get(stream, Position(0, 0, 0)), step.position) == step.rows
        planned += taken
        assert planned + plan.remaining_rows == history.rows
        positions = {stream: step.position for stream, step in plan.steps.items()}
    assert planned == history.rows


def test_a_plan_keeps_to_its_limits_unless_one_commit_is_larger(history: History) -> None:
    positions: dict[StreamId, Position] = {}
    sizes = []
    while True:
        plan = history.plan(positions, ReadLimits(messages=100))
        taken = sum(step.rows for step in plan.steps.values())
        if not taken:
            break
        sizes.append(taken)
        positions = {stream: step.position for stream, step in plan.steps.items()}
    assert max(sizes) <= 100
    assert len(sizes) < history.rows / 30


@cases("limits", ALL_LIMITS)
def test_reading_back_plan_by_plan_reads_everything_once(history: History, limits: ReadLimits) -> None:
    end: int | None = None
    planned = 0
    while True:
        plan = history.plan_newest(limits, end=end)
        assert end is None or plan.until <= end
        for stream in history.plan({}, ReadLimits()).steps:
            rows = history.rows_between(stream, Position.before(plan.since), Position.before(plan.until))
            assert rows == plan.streams.get(stream, Extent(0, 0)).rows
        planned += sum(taken.rows for taken in plan.streams.values())
        assert planned + plan.remaining_rows == history.rows
        if not plan.remaining_rows:
            break
        end = plan.since
    assert planned == history.rows
    assert history.plan_newest(limits, end=plan.since) == NewestPlan(0, 0, {}, 0)


def test_a_plan_that_goes_back_keeps_to_its_limits_and_times(history: History) -> None:
    end: int | None = None
    sizes: list[int] = []
    ends: list[int] = []
    while end is None or sizes[-1]:
        plan = history.plan_newest(ReadLimits(messages=100), end=end)
        sizes.append(sum(taken.rows for taken in plan.streams.values()))
        end = plan.since
        ends.append(end)
    assert max(sizes) <= 100
    assert len(sizes) < history.rows / 30
    start = ends[len(ends) // 2]
    between = history.plan_newest(ReadLimits(), start, ends[0])
    assert between.since == start < between.until <= ends[0]
    assert sum(taken.rows for taken in between.streams.values()) == sum(sizes[1 : len(ends) // 2 + 1])
    assert between.remaining_rows == 0
    assert history.plan_newest(ReadLimits(), start=2**60).streams == {}


def test_all_streams_come_to_the_same_time(history: History) -> None:
    plan = history.plan({}, ReadLimits(messages=300))
    moved = {stream: step for stream, step in plan.steps.items() if step.rows}
    latest = max(step.position.time for step in moved.values())
    for stream, step in moved.items():
        assert history.rows_between(stream, step.position, Position(latest, 0, ROW_MAX)) == 0
    assert len(moved) > 4


def test_a_later_generation_waits_for_the_earlier_one(history: History) -> None:
    positions: dict[StreamId, Position] = {}
    while True:
        plan = history.plan(positions, ReadLimits(messages=500))
        moved = [stream for stream, step in plan.steps.items() if step.rows]
        if not moved:
            break
        for shard in {stream.shard for stream in moved}:
            assert len({stream.generation for stream in moved if stream.shard == shard}) == 1
        positions = {stream: step.position for stream, step in plan.steps.items()}


def test_a_plan_begins_inside_a_block(history: History) -> None:
    stream, step = next(iter(history.plan({}, ReadLimits()).steps.items()))
    piece = history.slices(stream, Position(0, 0, 0), step.position)[0]
    inside = Position(piece.time, piece.sequence, 0)
    rest = history.plan({stream: inside}, ReadLimits()).steps[stream]
    assert rest.rows == step.rows - 1
    assert history.rows_between(stream, inside, rest.position) == rest.rows


def test_a_plan_keeps_to_its_times(history: History) -> None:
    everything = history.plan({}, ReadLimits())
    stream, step = max(everything.steps.items(), key=lambda item: item[1].rows)
    times = [piece.time for piece in history.slices(stream, Position(0, 0, 0), step.position)]
    start, end = times[len(times) // 3], times[2 * len(times) // 3]
    between = history.plan({}, ReadLimits(), start, end).steps[stream]
    assert between.rows == history.rows_between(stream, Position.before(start), Position.before(end))
    assert between.position.time < end


def test_nothing_new_leaves_positions_as_they_were(history: History) -> None:
    positions = {stream: step.position for stream, step in history.plan({}, ReadLimits()).steps.items()}
    again = history.plan(positions, ReadLimits(messages=10))
    assert {stream: step.position for stream, step in again.steps.items()} == positions
    assert again.remaining_rows == 0
    nothing = history.plan({}, ReadLimits(), start=2**60)
    assert all(step.rows == 0 for step in nothing.steps.values())


@cases("limits", [ReadLimits(messages=1), ReadLimits(messages=20), ReadLimits(None, 500), ReadLimits(10_000, None)])
def test_the_pieces_of_a_range_are_the_range(history: History, limits: ReadLimits) -> None:
    for stream, step in history.plan({}, ReadLimits()).steps.items():
        pieces = split_range(history.rocks, stream, Position(0, 0, 0), step.position, limits)
        places = [Position(0, 0, 0), *(piece.position for piece in pieces)]
        assert places == sorted(set(places))
        assert places[-1] == step.position
        for (before, after), piece in zip(pairwise(places), pieces, strict=True):
            assert history.rows_between(stream, before, after) == piece.rows
        assert sum(piece.message_bytes for piece in pieces) == step.message_bytes
        assert len(pieces) <= max(1, math.ceil(limits.share(Extent(step.rows, step.message_bytes))))


def test_pieces_are_about_as_large_as_was_asked_for(history: History) -> None:
    stream, step = max(history.plan({}, ReadLimits()).steps.items(), key=lambda item: item[1].rows)
    pieces = split_range(history.rocks, stream, Position(0, 0, 0), step.position, ReadLimits(step.rows // 5))
    assert 5 <= len(pieces) <= 6
    assert max(piece.rows for piece in pieces) <= 1.5 * step.rows / 5


def test_a_piece_begins_inside_a_block(history: History) -> None:
    stream, step = max(history.plan({}, ReadLimits()).steps.items(), key=lambda item: item[1].rows)
    block = history.slices(stream, Position(0, 0, 0), step.position)[0]
    inside = Position(block.time, block.sequence, 0)
    pieces = split_range(history.rocks, stream, inside, step.position, ReadLimits(20))
    assert sum(piece.rows for piece in pieces) == step.rows - 1
