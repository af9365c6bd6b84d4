"""Erasing: what is erased is in no file, and what others stored and how far their readers are stays what it was."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from heliograph.config.storage import OffloadConfig
from heliograph.storage.columnar import keys
from heliograph.storage.columnar.arrow_rows import RowCollector
from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.replay import block_slices
from heliograph.storage.columnar.salvage import Damage, readable_blocks
from heliograph.storage.columnar.secondary import reading
from heliograph.storage.engine import records
from heliograph.storage.erasure.changes import RecordChange, apply_changes
from heliograph.storage.erasure.errors import ErasureFailedError
from heliograph.storage.erasure.messages import erase_beside, erase_messages
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.interface import (
    BEGINNING,
    END,
    Batch,
    ColumnarOptions,
    DatabaseOptions,
    Position,
    StoredMessage,
    StreamId,
    StreamIterator,
)
from heliograph.storage.offload.blocks import OffloadedBlocks
from heliograph.storage.offload.files import everything
from heliograph.storage.repair.check import check_database
from heliograph.storage.topic_filter import TopicFilter
from storage.messages import MakeMessage
from storage.offloading import files_of, offload
from support.cases import cases
from support.databases import open_database, store_batch
from support.s3 import s3_server

OPTIONS = DatabaseOptions(n_shards=1, layout=ColumnarOptions(wildcard_thresholds=(100, 2)))
DEVICES = ("ada-lovelace", "bob", "cy")
Rows = dict[tuple[str, Position], StoredMessage]


def fill(database: LocalDatabase, make_message: MakeMessage) -> None:
    """Commits in which messages of all devices lie side by side, in streams of their own and in shared ones."""
    for number in range(12):
        some = [
            make_message(f"fleet/{device}/{kind}", f"{device}-{number}".encode(), clientid=device, username=device)
            for kind in ("pos", "speed")
            for device in ("x", "y", *DEVICES[number % 3 :], *DEVICES)
        ]
        store_batch(database, some)


def rows_of(database: LocalDatabase, topic_filter: str = "#") -> Rows:
    """All messages with their places, as a session in the broker reads them."""
    found: Rows = {}
    for stream in database.get_streams(topic_filter):
        iterator = database.make_iterator(stream.id, topic_filter)
        while isinstance(batch := database.next(iterator, 7), Batch) and (
            batch.messages or batch.iterator.position != iterator.position
        ):
            found |= {(str(stream.id), place): one for place, one in zip(batch.positions, batch.messages, strict=True)}
            iterator = batch.iterator
    return found


def after(database: LocalDatabase, stream: str, place: Position) -> list[Position]:
    """The places of what a reader finds that has come so far."""
    batch = database.next(StreamIterator(StreamId.parse(stream), "#", place), 10_000)
    return list(batch.positions) if isinstance(batch, Batch) else []


def behind(rows: Rows, place: tuple[str, Position]) -> list[Position]:
    return [one for stream, one in sorted(rows) if stream == place[0] and one > place[1]]


def public_rows(data_dir: Path) -> list[tuple[str, str]]:
    """Topics and positions of all messages, as bulk readers get them."""
    columns, found = ["topic", "position"], list[tuple[str, str]]()
    offloaded = OffloadedBlocks(data_dir)
    with reading(data_dir, "messages") as (rocks, catalog):
        for stream in catalog.all_streams():
            pieces = block_slices(rocks, stream, everything(stream), BEGINNING, END)
            collector = RowCollector(stream, None, columns)
            for batch in collector.batches(pieces, offloaded.reading(rocks, stream, columns)):
                found += zip(batch["topic"].to_pylist(), batch["position"].to_pylist(), strict=True)
    return found


def reopened(data_dir: Path) -> LocalDatabase:
    database = open_database(data_dir, options=OPTIONS)
    database.fetch = OffloadedBlocks(data_dir).fetch
    return database


def files_with(folder: Path, text: bytes) -> list[Path]:
    """Files in which some bytes are; what Parquet compresses is read."""
    found = [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]
    return found + [path for path in files_of(folder) if text in repr(parquet.read_table(path).to_pylist()).encode()]


SUBJECTS = {
    "client": ErasureSubject(clientid=DEVICES[0]),
    "topic": ErasureSubject(topics=TopicFilter(f"fleet/{DEVICES[0]}/#")),
}


@cases("is_offloaded", [False, True])
@cases("subject", list(SUBJECTS.values()), ids=list(SUBJECTS))
def test_what_is_erased_is_in_no_file_and_others_keep_their_places(
    tmp_path: Path, make_message: MakeMessage, subject: ErasureSubject, is_offloaded: bool
) -> None:
    data_dir = tmp_path / f"{subject.kind}-{is_offloaded}"
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.add_generation()
    fill(database, make_message)
    if is_offloaded:
        offload(database, 1, "cold")
    before = rows_of(database)
    public = public_rows(data_dir)
    database.close()
    kept = {place: one for place, one in before.items() if one.clientid != DEVICES[0]}
    going = len(before) - len(kept)
    trial = erase_messages(data_dir, "messages", subject, set(), is_tried=True)
    assert (trial.messages, trial.offloaded > 0, trial.files) == (going, is_offloaded, int(is_offloaded))

    for amount in (going, 0):  # once more erases nothing
        report = erase_messages(data_dir, "messages", subject, set(), is_tried=False)
        assert report.messages == amount
    assert files_with(data_dir, DEVICES[0].encode()) == []
    assert public_rows(data_dir) == [one for one in public if f"/{DEVICES[0]}/" not in one[0]]
    database = reopened(data_dir)
    assert rows_of(database) == kept
    assert all(after(database, *place) == behind(kept, place) for place in sorted(before)[::5])
    store_batch(database, [make_message(f"fleet/{DEVICES[0]}/pos", clientid=DEVICES[0])])
    assert len(rows_of(database)) == len(kept) + 1
    assert len(rows_of(database, f"fleet/{DEVICES[0]}/#")) == 1
    with reading(data_dir, "messages") as (rocks, catalog):
        assert not check_database(rocks, catalog).is_damaged
    database.close()


def test_what_is_older_goes(data_dir: Path, make_message: MakeMessage) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    before = rows_of(database)
    database.close()
    limit = sorted(one.stored_at for one in before.values())[len(before) // 2]
    erase_messages(data_dir, "messages", ErasureSubject(before_us=limit), set(), is_tried=False)
    database = reopened(data_dir)
    assert rows_of(database) == {place: one for place, one in before.items() if one.stored_at >= limit}
    database.close()


def test_what_is_erased_is_in_no_object_of_a_store(
    data_dir: Path, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ada")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    text = DEVICES[0].encode()
    with s3_server() as store:
        options = {"endpoint_override": store.endpoint, "scheme": "http", "region": "eu"}
        database = open_database(data_dir, options=OPTIONS)
        fill(database, make_message)
        database.add_generation()
        offload(database, 1, OffloadConfig(target="s3://lake/cold", storage_options=options).place)
        before = rows_of(database)
        database.close()

        def files() -> list[str]:
            return [key for key in store.listed() if key.endswith(".parquet")]  # the others stand for folders

        def rows_with_it() -> int:
            tables = [parquet.read_table(pa.BufferReader(store.get(key))) for key in files()]
            return sum(text in repr(row).encode() for table in tables for row in table.to_pylist())

        assert rows_with_it() == sum(one.clientid == DEVICES[0] for one in before.values())
        erase_messages(data_dir, "messages", SUBJECTS["client"], set(), is_tried=False)
        assert rows_with_it() == 0
        assert not [key for key in store.listed() if text in store.get(key)]
        assert all(key.endswith("-e1.parquet") for key in files())
        database = reopened(data_dir)
        assert rows_of(database) == {place: one for place, one in before.items() if one.clientid != DEVICES[0]}
        database.close()


def test_a_crash_between_the_steps_is_made_good_by_the_next_run(
    data_dir: Path, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.add_generation()
    offload(database, 1, "cold")
    before = rows_of(database)
    database.close()
    with monkeypatch.context() as patched:
        patched.setattr("heliograph.storage.erasure.messages.remove_earlier", lambda target, path: 1 / 0)
        with pytest.raises(Exception, match="division"):
            erase_messages(data_dir, "messages", SUBJECTS["client"], set(), is_tried=False)
    assert files_with(data_dir, DEVICES[0].encode())
    erase_messages(data_dir, "messages", SUBJECTS["client"], set(), is_tried=False)
    assert files_with(data_dir, DEVICES[0].encode()) == []
    database = reopened(data_dir)
    assert rows_of(database) == {place: one for place, one in before.items() if one.clientid != DEVICES[0]}
    database.close()


def erase_in(database: LocalDatabase, data_dir: Path, subject: ErasureSubject, writes_max: int = 10_000) -> int:
    """Erase beside the open database, which writes; how many messages."""
    writes = 0

    def write(changes: list[RecordChange]) -> None:
        nonlocal writes
        for change in changes:  # one by one, as slowly as may be
            if writes == writes_max:
                raise ErasureFailedError("the node ends")
            apply_changes(database, [change])
            writes += 1

    return erase_beside(data_dir, "messages", subject, write).messages


def compact(database: LocalDatabase) -> None:
    """Merge all small blocks, at a time at which none is young."""
    compactor, later = Compactor(database, CompactionOptions()), database.newest_commit_us() + 3_600_000_000
    compactor.step(later)  # which begins a round
    while compactor.step(later):
        pass
    assert compactor.statistics()["compaction.merges"]


def of_others(rows: Rows) -> Rows:
    return {place: one for place, one in rows.items() if one.clientid != DEVICES[0]}


@cases("subject", list(SUBJECTS.values()), ids=list(SUBJECTS))
def test_readers_of_a_running_node_miss_nothing_while_a_device_is_erased(
    tmp_path: Path, make_message: MakeMessage, subject: ErasureSubject
) -> None:
    data_dir = tmp_path / subject.kind
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.add_generation()
    before = rows_of(database)
    kept = of_others(before)
    for writes_max in (1, 2, 5, 20):
        with pytest.raises(ErasureFailedError, match="the node ends"):
            erase_in(database, data_dir, subject, writes_max)
        assert of_others(rows_of(database)) == kept
        with reading(data_dir, "messages") as (rocks, catalog):
            assert not check_database(rocks, catalog).is_damaged
            streams = list(catalog.all_streams())
            assert not [one for stream in streams for one in readable_blocks(rocks, stream) if isinstance(one, Damage)]
    store_batch(database, [make_message("fleet/dora/pos", clientid="dora")])  # others go on
    assert erase_in(database, data_dir, subject) > 0
    assert erase_in(database, data_dir, subject) == 0
    found = rows_of(database)
    assert {place: one for place, one in found.items() if one.clientid != "dora"} == kept
    assert all(set(behind(kept, place)) <= set(after(database, *place)) for place in sorted(before)[::5])
    database.close()
    database = reopened(data_dir)
    assert rows_of(database) == found
    database.close()


def test_of_a_generation_that_was_dropped_meanwhile_nothing_is_written(
    data_dir: Path, make_message: MakeMessage
) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.add_generation()
    waiting: list[RecordChange] = []
    erase_beside(data_dir, "messages", SUBJECTS["client"], waiting.extend)
    database.drop_generation(1)
    apply_changes(database, waiting)
    rocks, _ = database.contents()
    assert not list(records(rocks, keys.block_prefix(0, 1, 0), keys.block_prefix(0, 2, 0)))
    database.close()


def test_what_has_changed_since_it_was_looked_at_is_not_overwritten(data_dir: Path, make_message: MakeMessage) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.add_generation()
    waiting: list[RecordChange] = []
    erase_beside(data_dir, "messages", SUBJECTS["client"], waiting.extend)
    compact(database)
    found = rows_of(database)
    with pytest.raises(ErasureFailedError, match="has changed since"):
        apply_changes(database, waiting)
    assert rows_of(database) == found
    database.close()


def test_the_generation_that_is_written_and_offloaded_ones_are_left(data_dir: Path, make_message: MakeMessage) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.add_generation()
    offload(database, 1, "cold")
    fill(database, make_message)
    assert erase_in(database, data_dir, SUBJECTS["client"]) == 0
    database.close()
