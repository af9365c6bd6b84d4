"""What was offloaded reads as it did before, wherever it lies now."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import dataset, fs, parquet

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.columnar.offloaded import OffloadError
from heliograph.storage.columnar.retention import RetentionOptions, Usage, due_drop
from heliograph.storage.columnar.secondary import reading
from heliograph.storage.engine import records
from heliograph.storage.interface import Batch, DatabaseOptions, GenerationInfo
from heliograph.storage.offload.blocks import OffloadedBlocks
from heliograph.storage.offload.commit import OffloadOptions, due_offload, mark, replace_blocks
from heliograph.storage.offload.files import verified_replacements, write_files
from heliograph.storage.offload.target import Target
from reference.storage import replayed
from storage.messages import MakeMessage
from storage.offloading import LATER, files_of, fill, offload
from support.databases import open_database, store_batch


def test_a_replay_is_the_same_after_it(
    data_dir: Path, options: DatabaseOptions, make_message: MakeMessage, tmp_path: Path
) -> None:
    database = open_database(data_dir, options=options)
    fill(database, make_message)
    database.add_generation()
    fill(database, make_message)
    times = [one.stored_at for one in replayed(database)]
    asked = [("#", None), ("fleet/6/pos", None), ("fleet/+/pos", times[50]), ("fleet/0/#", None), ("none", None)]
    before = [replayed(database, topics, start) for topics, start in asked]
    saved = {}
    for stream in database.get_streams("#"):
        batch = database.next(database.make_iterator(stream.id, "#"), 5)
        assert isinstance(batch, Batch)
        rest = database.next(batch.iterator, 1000)
        saved[batch.iterator] = rest.messages if isinstance(rest, Batch) else None
    offload(database, 1, str(tmp_path / "cold"))
    assert [replayed(database, topics, start) for topics, start in asked] == before
    for iterator, messages in saved.items():
        rest = database.next(iterator, 1000)
        assert (rest.messages if isinstance(rest, Batch) else None) == messages
    assert len(files_of(tmp_path / "cold")) == 2
    database.close()
    database = open_database(data_dir, options=options)
    with pytest.raises(OffloadError, match="nothing here reads it"):
        replayed(database)
    database.close()


def test_the_files_are_a_table_that_any_reader_knows(
    data_dir: Path, options: DatabaseOptions, make_message: MakeMessage, tmp_path: Path
) -> None:
    database = open_database(data_dir, options=options)
    fill(database, make_message)
    stored = replayed(database)
    database.add_generation()
    offload(database, 1, str(tmp_path / "cold"))
    table = dataset.dataset(tmp_path / "cold", format="parquet", partitioning="hive").to_table()
    assert set(table["database"].to_pylist()) == {"messages"}
    assert sorted(set(table["shard"].to_pylist())) == [0, 1]
    rows = {row["guid"]: row for row in table.to_pylist()}
    assert rows.keys() == {one.guid for one in stored}
    for one in stored:
        row = rows[one.guid]
        assert (row["topic"], row["payload"], row["username"]) == (one.topic, one.payload, one.username)
        assert row["day"] == row["stored_at"].strftime("%Y-%m-%d")
    for file in files_of(tmp_path / "cold"):
        metadata = parquet.read_metadata(file)
        assert metadata.row_group(0).column(0).statistics is not None
        places = parquet.read_table(file, columns=["stream", "stored_at", "sequence"]).to_pylist()
        order = [(int(one["stream"].rpartition("/")[2]), one["stored_at"], one["sequence"]) for one in places]
        assert order == sorted(order)
    database.close()


def test_another_file_system_holds_it_as_well(
    data_dir: Path, options: DatabaseOptions, make_message: MakeMessage, tmp_path: Path
) -> None:
    database = open_database(data_dir, options=options)
    fill(database, make_message)
    before = replayed(database)
    database.add_generation()
    (tmp_path / "bucket").mkdir()
    filesystem = fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem())
    offload(database, 1, "some/place", filesystem)
    assert replayed(database) == before
    assert files_of(tmp_path / "bucket" / "some" / "place")
    database.close()


@pytest.mark.parametrize("harm", ["remove", "cut", "another"])
def test_a_file_that_is_not_what_was_written_is_named(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path, harm: str
) -> None:
    database = open_database(data_dir)
    fill(database, make_message)
    database.add_generation()
    fill(database, make_message)
    before = replayed(database)
    for number in (1, 2):
        if number == 2:
            database.add_generation()
        offload(database, number, str(tmp_path / "cold"))
    file, other = files_of(tmp_path / "cold")
    content = file.read_bytes()
    if harm == "remove":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(content[:-100])
    else:
        file.write_bytes(other.read_bytes().ljust(len(content), b"\0")[: len(content)])
    with pytest.raises(OffloadError, match=file.name) as caught:
        replayed(database)
    assert caught.value.code == "storage_offload_unreachable"
    streams = [one for one in database.get_streams("#") if one.id.generation == 2]
    assert all(database.next(database.make_iterator(one.id, "#"), 5) for one in streams)
    file.write_bytes(content)
    assert replayed(database) == before
    database.close()


def test_a_changed_byte_is_never_read_as_another_message(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path
) -> None:
    database = open_database(data_dir)
    fill(database, make_message)
    before = replayed(database)
    database.add_generation()
    offload(database, 1, str(tmp_path / "cold"))
    (file,) = files_of(tmp_path / "cold")
    content = file.read_bytes()
    found = 0
    for place in range(0, len(content), 53):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        database.fetch = OffloadedBlocks(data_dir).fetch
        try:
            assert replayed(database) == before
        except OffloadError:
            found += 1
    assert found > len(content) / 53 * 0.8
    database.close()


def test_what_a_cut_off_attempt_left_is_overwritten(data_dir: Path, make_message: MakeMessage, tmp_path: Path) -> None:
    database = open_database(data_dir)
    fill(database, make_message)
    before = replayed(database)
    database.add_generation()
    target = Target.open(str(tmp_path / "cold"), data_dir)
    with reading(data_dir, "messages") as (rocks, catalog):
        (written,) = write_files(rocks, catalog, catalog.generations()[0], target)
    file = Path(target.place(written.path))
    file.write_bytes(file.read_bytes()[:1000])
    offload(database, 1, str(tmp_path / "cold"))
    assert files_of(tmp_path / "cold") == [file]
    assert replayed(database) == before
    database.close()


def test_one_topic_of_a_shared_stream_is_found_where_merged_blocks_were_cut(
    data_dir: Path, options: DatabaseOptions, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.storage.offload.files.STUB_ROWS", 7)
    database = open_database(data_dir, options=options)
    topics = [f"fleet/{number % 15}/pos" for number in range(60)]
    for topic in topics:
        store_batch(database, [make_message(topic)])
    before = {topic: replayed(database, topic) for topic in topics}
    database.add_generation()
    compactor = Compactor(database, CompactionOptions(min_age_us=0, min_blocks=2, max_shared_rows=10))
    compactor.step(LATER)
    while compactor.step(LATER):
        continue
    rocks, _ = database.contents()
    assert compactor.statistics()["compaction.merges"] > 3
    entries = len(list(records(rocks, b"X", b"Y")))
    offload(database, 1, "cold")
    assert {topic: replayed(database, topic) for topic in topics} == before
    tails = {keys.time_and_sequence(key) for key, _ in records(rocks, b"B", b"C")}
    assert {keys.time_and_sequence(key) for key, _ in records(rocks, b"X", b"Y")} <= tails
    assert len(list(records(rocks, b"X", b"Y"))) <= entries * 1.5
    database.close()


def test_days_are_apart_and_commits_whole(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400_000_000_000
    now = 1_800_000_000 * 1_000_000_000
    times = iter(range(now, now + 100 * day, day // 3))
    monkeypatch.setattr("time.time_ns", lambda: next(times))
    database = open_database(data_dir)
    fill(database, make_message, commits=20)
    before = replayed(database)
    database.add_generation()
    compactor = Compactor(database, CompactionOptions(min_age_us=0, min_blocks=2))
    compactor.step(LATER)
    while compactor.step(LATER):  # blocks of several days
        continue
    assert compactor.statistics()["compaction.merges"]
    offload(database, 1, str(tmp_path / "cold"))
    assert len(files_of(tmp_path / "cold")) in (7, 8)
    assert replayed(database) == before
    database.close()


def test_nothing_is_written_into_a_generation_that_was_dropped_meanwhile(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path
) -> None:
    database = open_database(data_dir)
    fill(database, make_message)
    database.add_generation()
    place = Target.open(str(tmp_path / "cold"), data_dir)
    with reading(data_dir, "messages") as (rocks, catalog):
        generation = catalog.generation(0, 1)
        files = write_files(rocks, catalog, generation, place)
        replacements = verified_replacements(rocks, catalog, generation, place, files)
    assert mark(database, 0, 1, str(tmp_path / "cold"), files)
    database.drop_generation(1)
    replace_blocks(database, replacements)
    assert list(records(database.contents()[0], b"B", b"C")) == []
    database.close()


def info(number: int, until: int | None, version: int = 1) -> GenerationInfo:
    return GenerationInfo(0, number, "columnar", version, 0, until)


def test_the_oldest_generation_that_is_here_goes_when_it_is_old_or_room_is_short() -> None:
    usage = Usage(800, 0, False, False)
    options = OffloadOptions("cold", after_us=100, max_bytes=1000)
    assert due_offload([info(1, 50), info(2, None)], usage, replace(options, max_bytes=None), 149) is None
    assert due_offload([info(1, 50), info(2, None)], usage, replace(options, max_bytes=None), 150) == info(1, 50)
    assert due_offload([info(1, 50), info(2, 60), info(3, None)], usage, options, 61) == info(1, 50)
    assert due_offload([info(1, 50, 3), info(2, 60), info(3, None)], usage, options, 61) == info(2, 60)
    assert due_offload([info(1, 50, 3), info(2, None)], usage, options, 1000) is None
    assert due_offload([info(1, 50), info(2, None)], replace(usage, is_freeing=True), options, 61) is None


def test_dropping_for_room_takes_what_is_here() -> None:
    usage = Usage(1001, 0, False, False)
    generations = [info(1, 50, 3), info(2, 60), info(3, None)]
    assert due_drop(generations, usage, RetentionOptions(max_bytes=1000), 100) == 2
    assert due_drop(generations[:1] + generations[2:], usage, RetentionOptions(max_bytes=1000), 100) is None
    assert due_drop(generations, usage, RetentionOptions(retention_us=10, max_bytes=1000), 100) == 1
