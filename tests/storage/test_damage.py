"""Reading on past damage: what is left out, what is told, and what is refused to readers that did not ask for it."""

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyarrow import flight

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.damage import readable_slices
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.extent import extent_until, newest
from heliograph.storage.columnar.plan import ReadLimits, plan_read
from heliograph.storage.columnar.replay import block_slices, select
from heliograph.storage.columnar.salvage import Damage
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
    StreamId,
)
from heliograph.storage.reader.databases import StorageReader
from heliograph.storage.reader.process import ReaderProcess
from heliograph.storage.reader.request import Request
from heliograph.storage.topic_filter import TopicFilter
from storage.messages import MakeMessage
from support.databases import open_database, store_batch
from support.forms import seeds

STREAM = StreamId("messages", 0, 1, 1)
END = Position(TIME_MAX, SEQUENCE_MAX, ROW_MAX)


def blocks(rocks: Rdict) -> list[tuple[bytes, bytes]]:
    return list(records(rocks, b"B", b"C"))


def damage_block(database: LocalDatabase, number: int) -> int:
    """Change a byte of a block of an open database; returns the block's time."""
    key, value = blocks(database.contents()[0])[number]
    database.contents()[0].put(key, value[:-4] + b"\x07" + value[-3:])
    return keys.time_and_sequence(key)[0]


def damage_table(database: LocalDatabase, part: float) -> None:
    """Change a byte of the largest table of a closed database."""
    table = max(database.path.glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[int(len(content) * part)] ^= 0xFF
    table.write_bytes(content)


def times_read(
    database: LocalDatabase, topic_filter: str = "#", after: Position = BEGINNING, stream: StreamId = STREAM
) -> tuple[list[int], list[Damage]]:
    """The times of the blocks that can be read, and what cannot."""
    catalog = Catalog("messages", database.path)
    catalog.refresh(database.contents()[0])
    damages: list[Damage] = []
    selection = select(catalog, stream, [TopicFilter(topic_filter)])
    assert selection is not None
    slices = readable_slices(database.contents()[0], stream, selection, after, END, damages.append)
    return [piece.time for piece in slices], damages


def test_damaged_blocks_are_left_out_and_named(database: LocalDatabase, make_message: MakeMessage) -> None:
    for number in range(10):
        store_batch(database, [make_message(payload=b"%d" % n) for n in range(number + 1)])
    times = [keys.time_and_sequence(key)[0] for key, _ in blocks(database.contents()[0])]
    for number in (0, 4, 5, 9):
        damage_block(database, number)
    found, damages = times_read(database)
    assert found == [time for number, time in enumerate(times) if number not in (0, 4, 5, 9)]
    assert [(one.since, one.until) for one in damages] == [(times[n], times[n]) for n in (0, 4, 5, 9)]
    assert [one.messages for one in damages] == [1, 0, 5 + 6, None]  # of neighbours only the sum is known
    found, _ = times_read(database, after=Position(times[5], 0, ROW_MAX))
    assert found == times[6:9]


def test_a_replay_may_leave_out_what_is_damaged(database: LocalDatabase, make_message: MakeMessage) -> None:
    for number in range(6):
        store_batch(database, [make_message(payload=b"%d" % number)])
    time = damage_block(database, 3)
    found: list[bytes] = []
    damages: list[Damage] = []
    iterator = database.make_iterator(STREAM, "#")
    while isinstance(batch := database.next_readable(iterator, 2, damages.append), Batch) and batch.messages:
        found += [message.payload for message in batch.messages]
        iterator = batch.iterator
    assert found == [b"0", b"1", b"2", b"4", b"5"]
    assert {damage.since for damage in damages} == {time}


def test_a_damaged_table_is_read_before_and_behind_the_damage(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    for _ in range(200):
        store_batch(database, [make_message(payload=os.urandom(1000))])
    times = [keys.time_and_sequence(key)[0] for key, _ in blocks(database.contents()[0])]
    database.close()
    damage_table(database, 0.4)
    database.open()
    found, (damage,) = times_read(database)
    lost = [time for time in times if time not in set(found)]
    assert 0 < len(lost) < 40
    assert damage.since <= lost[0] <= lost[-1] <= damage.until
    assert damage.until <= times[times.index(lost[-1]) + 1]
    assert damage.messages == len(lost)
    assert "Corruption" in damage.problem


def test_a_damaged_index_is_done_without(data_dir: Path, make_message: MakeMessage) -> None:
    options = DatabaseOptions(layout=ColumnarOptions(wildcard_thresholds=(100, 1)))
    database = open_database(data_dir, options=options)
    for number in range(30):
        store_batch(database, [make_message(f"fleet/{number % 6}/pos")])
    stream = StreamId("messages", 0, 1, 2)
    assert len(times_read(database, "fleet/3/pos", stream=stream)[0]) == 5
    key, _ = next(iter(records(database.contents()[0], b"X", b"Y")))
    missing = keys.block_prefix(*stream[1:]) + key[-10:]
    database.contents()[0].delete(missing)
    database.close()
    database.open()
    topic = next(f"fleet/{n}/pos" for n in range(1, 6) if not _is_readable(database, f"fleet/{n}/pos"))
    found, (damage,) = times_read(database, topic, stream=stream)
    assert len(found) == 25 - 1  # rows are chosen by the reader now
    assert damage.messages == 1 or damage.problem.startswith("1 messages are missing")
    database.close()


def _is_readable(database: LocalDatabase, topic_filter: str) -> bool:
    stream = StreamId("messages", 0, 1, 2)
    try:
        return isinstance(database.next(database.make_iterator(stream, topic_filter), 100), Batch)
    except StorageDamagedError:
        return False


@pytest.mark.parametrize("seed", seeds(12, 4))
def test_whatever_is_damaged_the_rest_is_read_and_plans_are_made(
    seed: int, data_dir: Path, make_message: MakeMessage
) -> None:
    random = Random(seed)
    database = open_database(data_dir)
    for _ in range(random.randrange(60, 120)):
        store_batch(database, [make_message(payload=random.randbytes(random.randrange(4000)))])
    times = [keys.time_and_sequence(key)[0] for key, _ in blocks(database.contents()[0])]
    bad = {damage_block(database, random.randrange(len(times))) for _ in range(random.randrange(4))}
    database.close()
    table = max(database.path.glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    for _ in range(random.randrange(3)):
        content[random.randrange(int(len(content) * 0.4), int(len(content) * 0.8))] ^= 0xFF
    table.write_bytes(content)
    database.open()
    found, damages = times_read(database)
    assert found == sorted(set(found))
    assert not bad & set(found)
    for time in times:
        assert time in found or any(damage.since <= time <= damage.until for damage in damages)
    catalog = Catalog("messages", database.path)
    catalog.refresh(database.contents()[0])
    plan = plan_read(database.contents()[0], catalog, [TopicFilter("#")], None, None, {}, ReadLimits())
    assert plan.remaining_rows == 0
    assert plan.steps[STREAM].position >= Position(found[-1], 0, 0)
    assert extent_until(database.contents()[0], STREAM, END).rows <= len(times)
    assert newest(database.contents()[0], STREAM) is not None
    rows = 0
    position = BEGINNING
    for _ in range(len(times)):
        step = plan_read(
            database.contents()[0], catalog, [TopicFilter("#")], None, None, {STREAM: position}, ReadLimits(messages=7)
        ).steps[STREAM]
        rows += step.rows
        position = step.position
    assert position >= Position(found[-1], 0, 0)
    database.close()


class Asked:
    """A reader and its answers, without a process."""

    def __init__(self, data_dir: Path, scratch: Path) -> None:
        scratch.mkdir()
        self._reader = StorageReader(data_dir, scratch)

    def read(self, **fields: object) -> tuple[list[bytes], dict[str, Any] | None]:
        """The payloads of a read, and the note at its end."""
        ticket = {"database": "messages", "topics": ["#"], "stream": str(STREAM), "from": "", **fields}
        _, answers = self._reader.read(Request(json.dumps(ticket).encode()))
        payloads: list[bytes] = []
        note = None
        for answer in answers:
            batch, metadata = answer if isinstance(answer, tuple) else (answer, None)
            payloads += batch.column("payload").to_pylist()
            note = None if metadata is None else json.loads(metadata)
        return payloads, note


def test_a_read_is_refused_or_skips_as_it_is_asked(
    database: LocalDatabase, data_dir: Path, tmp_path: Path, make_message: MakeMessage
) -> None:
    for number in range(5):
        store_batch(database, [make_message(payload=b"%d" % number), make_message(payload=b"%d'" % number)])
    reader = Asked(data_dir, tmp_path / "scratch")
    assert reader.read(on_damage="skip") == (reader.read()[0], None)
    time = damage_block(database, 2)
    with pytest.raises(StorageDamagedError, match=f"stored at {time} "):
        reader.read()
    payloads, note = reader.read(on_damage="skip")
    assert payloads == [b"0", b"0'", b"1", b"1'", b"3", b"3'", b"4", b"4'"]
    assert note is not None
    assert note["damaged_count"] == 1
    (damage,) = note["damaged"]
    assert (damage["database"], damage["shard"], damage["stream"]) == ("messages", 0, str(STREAM))
    assert (damage["since"], damage["until"], damage["messages"]) == (time, time, 2)
    with pytest.raises(ValueError, match="the field 'on_damage' is 'stop'; valid are fail, skip"):
        reader.read(on_damage="stop")


@pytest.mark.service
async def test_the_note_of_what_was_left_out_comes_over_flight(
    database: LocalDatabase, data_dir: Path, make_message: MakeMessage
) -> None:
    for number in range(3):
        store_batch(database, [make_message(payload=b"%d" % number)])
    time = damage_block(database, 1)
    process = ReaderProcess(data_dir, "127.0.0.1:0")
    await process.start()
    try:
        client = flight.FlightClient(f"grpc://{process.bind}")
        ticket = {"database": "messages", "topics": ["#"], "stream": str(STREAM), "on_damage": "skip"}
        chunks = list(client.do_get(flight.Ticket(json.dumps(ticket).encode())))
        assert [row for chunk in chunks for row in chunk.data.column("payload").to_pylist()] == [b"0", b"2"]
        assert json.loads(chunks[-1].app_metadata.to_pybytes())["damaged"][0]["since"] == time
    finally:
        await process.stop()


def test_skipping_costs_no_rows_where_nothing_is_damaged(data_dir: Path, make_message: MakeMessage) -> None:
    options = DatabaseOptions(layout=ColumnarOptions(wildcard_thresholds=(100, 1)))
    database = open_database(data_dir, options=options)
    for number in range(40):
        store_batch(database, [make_message(f"fleet/{number % 6}/pos")])
    catalog = Catalog("messages", database.path)
    catalog.refresh(database.contents()[0])
    stream = StreamId("messages", 0, 1, 2)
    for topic_filter in ("#", "fleet/3/pos", "fleet/+/pos"):
        selection = select(catalog, stream, [TopicFilter(topic_filter)])
        assert selection is not None
        times = [keys.time_and_sequence(key)[0] for key, _ in blocks(database.contents()[0])]
        for after in (BEGINNING, Position(times[20], 0, ROW_MAX), Position(times[20], 0, 0)):
            plain = list(block_slices(database.contents()[0], stream, selection, after, END))
            found = times_read(database, topic_filter, after, stream)
            assert found == ([piece.time for piece in plain], [])
    database.close()
