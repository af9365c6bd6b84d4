"""Compaction merges small blocks, and no reader can tell but by the time that it takes."""

import asyncio
import shutil
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from heliograph.storage.columnar import keys
from heliograph.storage.columnar.arrow_rows import RowCollector
from heliograph.storage.columnar.block import is_merged, read_header
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.extent import extent_until, newest
from heliograph.storage.columnar.plan import ReadLimits, plan_newest, plan_read
from heliograph.storage.columnar.replay import block_slices, select
from heliograph.storage.engine import Rdict, records
from heliograph.storage.errors import StorageDamagedError
from heliograph.storage.interface import (
    BEGINNING,
    ROW_MAX,
    SEQUENCE_MAX,
    TIME_MAX,
    Batch,
    ColumnarOptions,
    DatabaseOptions,
    Position,
    StoredMessage,
    StreamId,
    StreamIterator,
)
from heliograph.storage.reader.process import ReaderProcess
from heliograph.storage.repair.check import check_database
from heliograph.storage.repair.message_database import repair_database
from heliograph.storage.topic_filter import TopicFilter
from storage.messages import MakeMessage, message_maker
from storage.offloading import LATER
from support.databases import open_database, store_batch

END = Position(TIME_MAX, SEQUENCE_MAX, ROW_MAX)
OPTIONS = DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=(3, 2)))
AT_ONCE = CompactionOptions(min_age_us=0, min_blocks=2, max_rows=20, max_shared_rows=20)
FILTERS = ("#", "fleet/+/pos", "fleet/3/pos", "fleet/0/pos", "other")


def fill(database: LocalDatabase, seed: int) -> None:
    """Store commits of different sizes, in two generations."""
    random, make = Random(seed), message_maker()
    for number in range(60):
        messages: list[StoredMessage] = []
        for _ in range(random.choice((1, 1, 1, 2, 5, 12))):
            topic = random.choice(("other", f"fleet/{random.randrange(6)}/pos"))
            clientid = f"c{random.randrange(3)}"
            messages.append(make(topic, random.randbytes(random.randrange(30)), clientid=clientid, qos=number % 3))
        store_batch(database, messages)
        if number == 40:
            database.add_generation()


def compact(database: LocalDatabase, options: CompactionOptions = AT_ONCE, steps: int = 10_000) -> Compactor:
    """Run a compactor until there is nothing more to do."""
    compactor = Compactor(database, options)
    rounds = 0
    while rounds < 2 and steps:
        before = compactor.statistics()["compaction.merges"]
        rounds += (
            not compactor.step(time.time_ns() // 1000 + 1) and before == compactor.statistics()["compaction.merges"]
        )
        steps -= 1
    return compactor


def block_count(database: LocalDatabase) -> int:
    return sum(1 for _ in records(database.contents()[0], b"B", b"C"))


def catalog_of(database: LocalDatabase) -> Catalog:
    catalog = Catalog(database.name, database.path)
    catalog.refresh(database.contents()[0])
    return catalog


def everything(
    database: LocalDatabase, topic_filter: str, n: int = 5
) -> dict[StreamId, list[tuple[Position, StoredMessage]]]:
    """Every message of a filter with its position, by stream, read n at a time."""
    found: dict[StreamId, list[tuple[Position, StoredMessage]]] = {}
    for stream in database.get_streams(topic_filter):
        rows = found[stream.id] = []
        iterator = database.make_iterator(stream.id, topic_filter)
        while isinstance(batch := database.next(iterator, n), Batch) and batch.messages:
            rows += zip(batch.positions, batch.messages, strict=True)
            iterator = batch.iterator
    return found


def as_arrow(
    database: LocalDatabase, catalog: Catalog, stream: StreamId, topic_filter: str, after: Position, to: Position
) -> list[object]:
    """The rows of a bulk read."""
    filters = [TopicFilter(topic_filter)]
    selection = select(catalog, stream, filters)
    if selection is None:
        return []
    rows = RowCollector(stream, None if selection.covered else filters, None)
    slices = block_slices(database.contents()[0], stream, selection, after, to)
    return [row for batch in rows.batches(slices) for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(4))
def test_every_read_gives_the_same_as_before(seed: int, data_dir: Path, tmp_path: Path) -> None:
    first = open_database(data_dir, options=OPTIONS)
    fill(first, seed)
    first.close()
    shutil.copytree(data_dir, tmp_path / "plain")
    plain = open_database(tmp_path / "plain", options=OPTIONS)
    merged = open_database(data_dir, options=OPTIONS)
    compactor = compact(merged)
    assert compactor.statistics()["compaction.failures"] == 0
    assert block_count(merged) < 0.7 * block_count(plain)
    for topic_filter in FILTERS:
        wanted = everything(plain, topic_filter)
        assert everything(merged, topic_filter) == wanted
        assert everything(merged, topic_filter, 1000) == wanted
        for stream, rows in wanted.items():
            check_stream(plain, merged, stream, topic_filter, [position for position, _ in rows])
    plain.close()
    merged.close()


def check_stream(
    plain: LocalDatabase, merged: LocalDatabase, stream: StreamId, topic_filter: str, positions: list[Position]
) -> None:
    """Reads between positions that were handed out before, in both ways, and what plans are made of."""
    random, catalogs = Random(str(stream)), [catalog_of(one) for one in (plain, merged)]
    edges = [BEGINNING, END, *positions, *(Position(p.time, p.sequence, ROW_MAX) for p in positions)]
    edges += [Position.before(p.time) for p in positions] + [Position(p.time + 1, 0, 0) for p in positions]
    for edge in edges:
        parts = [extent_until(one.contents()[0], stream, edge) for one in (merged, plain)]
        assert parts[0].rows == parts[1].rows
        assert newest(merged.contents()[0], stream, edge.time) == newest(plain.contents()[0], stream, edge.time)
    for after in random.sample(edges, min(8, len(edges))):
        iterator = StreamIterator(stream, topic_filter, after)
        one, other = (database.next(iterator, 3) for database in (plain, merged))
        assert isinstance(one, Batch) == isinstance(other, Batch)
        if isinstance(one, Batch) and isinstance(other, Batch):
            assert (one.messages, one.positions) == (other.messages, other.positions)
            one, other = plain.next(one.iterator, 3), merged.next(other.iterator, 3)
            assert isinstance(one, Batch) == isinstance(other, Batch)
            if isinstance(one, Batch) and isinstance(other, Batch):
                assert (one.messages, one.positions) == (other.messages, other.positions)
        for to in random.sample(edges, min(3, len(edges))):
            if after < to:
                wanted = as_arrow(plain, catalogs[0], stream, topic_filter, after, to)
                assert as_arrow(merged, catalogs[1], stream, topic_filter, after, to) == wanted


def test_a_reader_that_goes_on_by_plans_reads_everything_once_while_blocks_are_merged(data_dir: Path) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, 9)
    wanted = sorted(message.id_low for rows in everything(database, "#").values() for _, message in rows)
    compactor = Compactor(database, AT_ONCE)
    positions: dict[StreamId, Position] = {}
    found: list[bytes] = []
    while True:
        compactor.step(time.time_ns() // 1000)
        catalog = catalog_of(database)
        plan = plan_read(
            database.contents()[0], catalog, [TopicFilter("#")], None, None, positions, ReadLimits(messages=9)
        )
        if not any(step.rows for step in plan.steps.values()):
            break
        for stream, step in plan.steps.items():
            compactor.step(time.time_ns() // 1000)
            rows = as_arrow(
                database, catalog_of(database), stream, "#", positions.get(stream, BEGINNING), step.position
            )
            assert len(rows) == step.rows
            found += [row["guid"] for row in rows if isinstance(row, dict)]
            positions[stream] = step.position
    assert sorted(int.from_bytes(guid[8:], "big") for guid in found) == wanted
    database.close()


def test_a_reader_that_goes_back_reads_everything_once_while_blocks_are_merged_and_come(
    data_dir: Path, make_message: MakeMessage
) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, 9)
    wanted = sorted(message.id_low for rows in everything(database, "#").values() for _, message in rows)
    compactor = Compactor(database, AT_ONCE)
    end: int | None = None
    found: list[bytes] = []
    is_whole = False
    while not is_whole:
        compactor.step(time.time_ns() // 1000)
        contents = database.contents()[0]
        plan = plan_newest(contents, catalog_of(database), [TopicFilter("#")], None, end, ReadLimits(messages=9))
        store_batch(database, [make_message("fleet/7/pos")])
        for stream, taken in plan.streams.items():
            compactor.step(time.time_ns() // 1000)
            span = Position.before(plan.since), Position.before(plan.until)
            rows = as_arrow(database, catalog_of(database), stream, "#", *span)
            assert len(rows) == taken.rows
            found += [row["guid"] for row in rows if isinstance(row, dict)]
        end, is_whole = plan.since, not plan.remaining_rows
    assert sorted(int.from_bytes(guid[8:], "big") for guid in found) == wanted
    database.close()


def test_an_index_entry_that_was_read_before_a_merge_leads_to_the_merged_block(data_dir: Path) -> None:
    database = open_database(data_dir, options=DatabaseOptions(layout=ColumnarOptions((100, 1))))
    make = message_maker()
    for number in range(40):
        store_batch(database, [make(f"fleet/{number % 4}/pos", b"%d" % number)])
    stream = StreamId("messages", 0, 1, 2)
    catalog, filters = catalog_of(database), [TopicFilter("fleet/3/pos")]
    selection = select(catalog, stream, filters)
    assert selection is not None
    slices = block_slices(database.contents()[0], stream, selection, BEGINNING, END)
    first = next(slices)
    compact(database, CompactionOptions(min_age_us=0, min_blocks=2, max_shared_rows=10))
    rows = RowCollector(stream, filters, ["payload"])

    def all_slices() -> "object":
        yield first
        yield from slices

    payloads = [row for batch in rows.batches(all_slices()) for row in batch.column("payload").to_pylist()]  # type: ignore[arg-type]  # payloads are bytes
    assert payloads == [b"%d" % number for number in range(40) if number % 4 == 3]
    database.close()


def test_young_and_few_blocks_are_left_alone(database: LocalDatabase, make_message: MakeMessage) -> None:
    for _ in range(63):
        store_batch(database, [make_message()])
    later = time.time_ns() // 1000 + 120_000_000
    compactor = Compactor(database, CompactionOptions())
    while compactor.step(later):
        pass
    while compactor.step(later):
        pass
    assert block_count(database) == 63
    store_batch(database, [make_message()])
    for now in (time.time_ns() // 1000, later):
        while compactor.step(now):
            pass
        while compactor.step(now):
            pass
        assert block_count(database) == (64 if now < later else 1)
    assert database.list_generations()[0].layout_version == 2


def test_large_blocks_stay_as_they_are_and_part_those_that_are_merged(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    sizes = [*[1] * 5, 100, *[1] * 4, 200, 300, *[2] * 3]
    for size in sizes:
        store_batch(database, [make_message(payload=b"x" * 20) for _ in range(size)])
    wanted = everything(database, "#")
    compact(database, CompactionOptions(min_age_us=0, min_blocks=2))
    rows = [read_header(key, value).rows for key, value in records(database.contents()[0], b"B", b"C")]
    assert rows == [5, 100, 4, 200, 300, 6]
    assert everything(database, "#") == wanted


def test_merged_blocks_outlive_restarts_and_are_checked_and_mended(data_dir: Path) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, 5)
    compact(database)
    wanted = {topic_filter: everything(database, topic_filter) for topic_filter in FILTERS}
    database.close()
    database.open()
    assert {topic_filter: everything(database, topic_filter) for topic_filter in FILTERS} == wanted
    report = check_database(database.contents()[0], catalog_of(database))
    assert not report.is_damaged
    assert report.messages == sum(len(rows) for rows in wanted["#"].values())
    key, value = next((key, value) for key, value in records(database.contents()[0], b"B", b"C") if is_merged(value))
    lost = read_header(key, value).rows
    database.contents()[0].put(key, value[:-9] + b"\xff" + value[-8:])
    with pytest.raises(StorageDamagedError, match="checksum"):
        everything(database, "#")
    database.close()
    assert repair_database(data_dir, "messages").messages == report.messages - lost
    database.open()
    assert not check_database(database.contents()[0], catalog_of(database)).is_damaged
    left = {topic_filter: everything(database, topic_filter) for topic_filter in FILTERS}
    for topic_filter in FILTERS:
        for stream, rows in wanted[topic_filter].items():
            kept = [row for row in rows if row in left["#"][stream]]
            assert left[topic_filter][stream] == kept
    database.close()


def test_writing_goes_on_between_merges(data_dir: Path, make_message: MakeMessage) -> None:
    database = open_database(data_dir)
    compactor = Compactor(database, CompactionOptions(min_age_us=0, min_blocks=4, max_rows=50))
    for number in range(300):
        store_batch(database, [make_message(payload=b"%d" % number)])
        compactor.step(time.time_ns() // 1000)
        if number == 150:
            database.add_generation()
        if number == 200:
            database.close()
            database.open()
    found = [message.payload for rows in everything(database, "#").values() for _, message in rows]
    assert found == [b"%d" % number for number in range(300)]
    assert block_count(database) < 200
    assert not check_database(database.contents()[0], catalog_of(database)).is_damaged
    stream = StreamId("messages", 0, 2, 1)
    assert extent_until(database.contents()[0], stream, END).rows == 149
    assert keys.compacted(0, 1, 1) in {key for key, _ in records(database.contents()[0], b"C", b"D")}
    database.drop_generation(1)
    assert not list(records(database.contents()[0], keys.compacted(0, 1, 0), keys.compacted(0, 2, 0)))
    database.close()


async def test_it_runs_in_an_event_loop_until_it_is_stopped(database: LocalDatabase, make_message: MakeMessage) -> None:
    for _ in range(100):
        store_batch(database, [make_message()])
    options = CompactionOptions(min_age_us=0, min_blocks=2, max_rows=50, pause_s=0.0, rest_s=0.0)
    compactor = Compactor(database, options)
    compactor.start()
    async with asyncio.timeout(20):
        while block_count(database) > 2:  # noqa: ASYNC110 - what is waited for is what it does by itself
            await asyncio.sleep(0)
    compactor.stop()
    assert compactor.statistics()["compaction.merged_messages"] >= 100


@pytest.mark.service
@pytest.mark.slow
async def test_a_reader_process_reads_on_while_blocks_are_merged_behind_its_back(data_dir: Path) -> None:
    database = open_database(data_dir, options=DatabaseOptions(layout=ColumnarOptions((100, 1))))
    make = message_maker()
    process = ReaderProcess(data_dir, "127.0.0.1:0")
    await process.start()
    client = StorageClient(process.bind)
    compactor = Compactor(database, CompactionOptions(min_age_us=0, min_blocks=2, max_rows=9, max_shared_rows=9))
    positions: dict[str, str] = {}
    found: list[bytes] = []
    selection = MessageSelection(topics=("fleet/0/pos", "fleet/3/pos"))
    for number in range(400):
        database.write([make(f"fleet/{number % 4}/pos", b"%d" % number)])
        compactor.step(time.time_ns() // 1000)
        if number % 20 == 19:
            plan = await asyncio.to_thread(client.plan, selection, positions)
            for stream, step in plan.streams.items():
                batches = client.read(selection, stream, positions.get(stream, ""), step.position)
                for batch in await asyncio.to_thread(list, batches):
                    found += batch.column("payload").to_pylist()
            positions |= plan.positions()
    client.close()
    await process.stop()
    database.close()
    assert sorted(map(int, found)) == [number for number in range(400) if number % 4 in (0, 3)]
    assert compactor.statistics()["compaction.merges"] > 40


def test_what_was_known_before_a_database_was_opened_again_is_not_written(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    class Reopened:
        """As after a fault: the catalog is another one."""

        is_open = True
        rewrite = database.rewrite

        def __init__(self) -> None:
            self.catalog = catalog_of(database)

        def contents(self) -> tuple[Rdict, Catalog]:
            return database.contents()[0], self.catalog

    for _ in range(4):
        store_batch(database, [make_message()])
    seen = Reopened()
    compactor = Compactor(seen, replace(AT_ONCE, min_blocks=2))
    assert not compactor.step(LATER)  # the round begins
    database.add_generation()
    seen.catalog = database.contents()[1]
    while not compactor.statistics()["compaction.merges"]:
        compactor.step(LATER)
    assert all(one.info.until for one in catalog_of(database).generations() if one.info.number == 1)
