"""A database that cannot be opened is never made anew over what is left of it, and mending brings back what it can."""

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.node.state_records import validator
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.engine import last_record, open_primary
from heliograph.storage.errors import DroppedGenerationError, StorageDamagedError, UnknownDatabaseError
from heliograph.storage.interface import DatabaseOptions, StoredMessage
from heliograph.storage.keyed.table import KeyedTable, keyed_path
from heliograph.storage.repair.message_database import repair_database
from heliograph.storage.repair.missing_records import settled
from heliograph.storage.repair.record_database import check_state, repair_state
from heliograph.storage.state.interface import StateBatch
from heliograph.storage.state.local import LocalState
from support.databases import numbers_of, open_database, store_batch

PLACES = {"messages": "storage/messages", "sessions": "state/sessions", "retained": "keyed/retained"}


def message(number: int, topic: str) -> StoredMessage:
    return StoredMessage(number, 0, topic, b"payload %d" % number * 20, 1, False, f"c{number % 3}", None, b"", 0)


def open_messages(data_dir: Path) -> LocalDatabase:
    return open_database(data_dir)


def store(data_dir: Path, numbers: range, topic: str = "fleet/{}/pos") -> None:
    """Store messages, and close, which makes one table of them."""
    database = open_messages(data_dir)
    for number in numbers:
        store_batch(database, [message(number, topic.format(number % 40))])
    database.close()


def read(data_dir: Path, topic_filter: str = "#") -> list[int]:
    database = open_messages(data_dir)
    found = numbers_of(database, topic_filter)
    database.close()
    return sorted(found)


def with_table(data_dir: Path, act: Callable[[KeyedTable], object]) -> object:
    table = KeyedTable("retained", keyed_path(data_dir) / "retained")
    table.open()
    try:
        return act(table)
    finally:
        table.close()


def retain(data_dir: Path, numbers: range) -> None:
    def put(table: KeyedTable) -> None:
        table.commit([table.put(message(number, f"fleet/{number}/pos")) for number in numbers])

    with_table(data_dir, put)


def retained(data_dir: Path) -> set[int]:
    def walk(table: KeyedTable) -> set[int]:
        assert len(table) == len(table.step(table.walk("#"), 10_000, 1 << 30, 1 << 60).records)
        return {number for number in range(1000) if table.get(f"fleet/{number}/pos") is not None}

    found = with_table(data_dir, walk)
    assert isinstance(found, set)
    return found


def with_state(data_dir: Path, act: Callable[[LocalState], object]) -> object:
    async def run() -> object:
        state = LocalState(data_dir, "sessions")
        state.open()
        try:
            return act(state)
        finally:
            await state.close()

    return asyncio.run(run())


def save(data_dir: Path, numbers: range) -> None:
    batch = StateBatch()
    for number in numbers:
        batch.put(b"?%05d" % number, b"value %d" % number)
    with_state(data_dir, lambda state: state.submit(batch))


def saved(data_dir: Path) -> set[int]:
    found = with_state(data_dir, lambda state: {int(key[1:]) for key, _ in state.scan(limit=10_000)})
    assert isinstance(found, set)
    return found


FILL: dict[str, Callable[[Path, range], None]] = {"messages": store, "sessions": save, "retained": retain}
OPEN: dict[str, Callable[[Path], object]] = {
    "messages": lambda data_dir: open_messages(data_dir).close(),
    "sessions": saved,
    "retained": retained,
}
HAVE: dict[str, Callable[[Path], object]] = {
    "messages": lambda data_dir: set(read(data_dir)),
    "sessions": saved,
    "retained": retained,
}


def remove(path: Path, pattern: str) -> None:
    for file in path.glob(pattern):
        file.unlink()


def only_tables(path: Path) -> None:
    for file in path.iterdir():
        if file.suffix != ".sst":
            file.unlink()


def empty(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


LOSSES: dict[str, Callable[[Path], object]] = {
    "CURRENT": lambda path: remove(path, "CURRENT"),
    "garbage": lambda path: (path / "CURRENT").write_bytes(b"\xff garbage"),
    "MANIFEST": lambda path: remove(path, "MANIFEST-*"),
    "all but tables": only_tables,
    "a table": lambda path: min(path.glob("*.sst")).unlink(),
    "everything": empty,
    "directory": shutil.rmtree,
}


def contents(path: Path) -> dict[str, bytes]:
    """The files of a database without RocksDB's notes about itself."""
    if not path.is_dir():
        return {}
    files = [file for file in path.iterdir() if not file.name.startswith("LOG") and file.name != "LOCK"]
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_database_that_cannot_be_opened_is_left_as_it_is(data_dir: Path, name: str, loss: str) -> None:
    FILL[name](data_dir, range(100))
    FILL[name](data_dir, range(100, 200))
    path = data_dir / PLACES[name]
    LOSSES[loss](path)
    before = contents(path)
    for _ in range(3):
        with pytest.raises(StorageDamagedError, match="heliograph storage check --repair"):
            OPEN[name](data_dir)
    assert contents(path) == before


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("loss", ["CURRENT", "garbage", "MANIFEST", "all but tables", "a table", "everything"])
def test_mending_brings_back_what_the_files_that_are_left_hold(data_dir: Path, name: str, loss: str) -> None:
    FILL[name](data_dir, range(100))
    FILL[name](data_dir, range(100, 200))
    LOSSES[loss](data_dir / PLACES[name])
    left = {"a table": set(range(100, 200)), "everything": set()}.get(loss, set(range(200)))
    assert main(["storage", "check", name, "--repair", "--data-dir", str(data_dir)]) == 0
    assert HAVE[name](data_dir) == left
    FILL[name](data_dir, range(200, 300))
    assert HAVE[name](data_dir) == left | set(range(200, 300))
    assert main(["storage", "check", name, "--data-dir", str(data_dir)]) == 0


def test_messages_are_found_by_their_topics_when_what_was_learned_is_lost(data_dir: Path) -> None:
    store(data_dir, range(100))
    store(data_dir, range(100, 200))
    store(data_dir, range(200, 220), "other/{}")
    remove(data_dir / "storage/messages", "CURRENT")
    min((data_dir / "storage/messages").glob("*.sst")).unlink()
    report = repair_database(data_dir, "messages")
    assert any("made again" in problem for problem in report.found.problems)
    assert report.messages == 120
    for number in range(40):
        expected = [one for one in range(100, 200) if one % 40 == number]
        assert read(data_dir, f"fleet/{number}/pos") == expected
    assert read(data_dir, "fleet/+/pos") == list(range(100, 200))
    assert read(data_dir, "other/#") == list(range(200, 220))


def add_generation(data_dir: Path) -> None:
    """Begin another generation, whose records are in the table of the next close."""
    database = open_messages(data_dir)
    database.add_generation()
    store_batch(database, [message(number, f"fleet/{number % 40}/pos") for number in range(100, 200)])
    database.close()


def test_messages_of_a_generation_whose_records_are_lost_are_brought_back(data_dir: Path) -> None:
    store(data_dir, range(100))
    before = set((data_dir / "storage/messages").glob("*.sst"))
    add_generation(data_dir)
    (lost,) = set((data_dir / "storage/messages").glob("*.sst")) - before
    store(data_dir, range(200, 300))
    lost.unlink()
    report = repair_database(data_dir, "messages")
    assert any("made again" in problem for problem in report.found.problems)
    assert read(data_dir) == [*range(100), *range(200, 300)]
    assert read(data_dir, "fleet/7/pos") == [one for one in read(data_dir) if one % 40 == 7]


@pytest.mark.parametrize("kind", [b"G", b"S"])
def test_messages_of_streams_without_a_record_are_named_and_brought_back(data_dir: Path, kind: bytes) -> None:
    store(data_dir, range(100))
    add_generation(data_dir)
    rocks = open_primary(data_dir / "storage/messages", "zstd")
    record = last_record(rocks, kind, kind + b"\xff")
    assert record is not None
    rocks.delete(record[0])
    rocks.close()
    assert main(["storage", "check", "messages", "--data-dir", str(data_dir)]) == 1
    assert repair_database(data_dir, "messages").messages == 200
    assert read(data_dir) == list(range(200))
    assert main(["storage", "check", "messages", "--data-dir", str(data_dir)]) == 0


@pytest.mark.parametrize("part", [0.01, 0.5, 0.97])
def test_a_damaged_piece_of_the_only_table_costs_what_it_holds(data_dir: Path, part: float) -> None:
    database = open_messages(data_dir)
    for number in range(200):
        payload = random.Random(number).randbytes(1000)
        store_batch(database, [message(number, f"fleet/{number}/{number % 3}")._replace(payload=payload)])
    database.close()
    (table,) = (data_dir / "storage/messages").glob("*.sst")
    damage(table, part)
    assert main(["storage", "check", "messages", "--repair", "--data-dir", str(data_dir)]) == 0
    assert 150 < len(read(data_dir)) <= 200
    assert main(["storage", "check", "messages", "--data-dir", str(data_dir)]) == 0


@pytest.mark.parametrize("part", [0.01, 0.5])
def test_a_damaged_piece_of_retained_messages_costs_what_it_holds(data_dir: Path, part: float) -> None:
    def put(table: KeyedTable) -> None:
        payloads = [random.Random(number).randbytes(1000) for number in range(200)]
        messages = [message(number, f"fleet/{number}/pos") for number in range(200)]
        pairs = zip(messages, payloads, strict=True)
        table.commit([table.put(one._replace(payload=payload)) for one, payload in pairs])

    with_table(data_dir, put)
    (file,) = (data_dir / "keyed/retained").glob("*.sst")
    damage(file, part)
    assert main(["storage", "check", "retained", "--repair", "--data-dir", str(data_dir)]) == 0
    assert 150 < len(retained(data_dir)) <= 200
    assert main(["storage", "check", "retained", "--data-dir", str(data_dir)]) == 0


@pytest.mark.parametrize("name", PLACES)
def test_a_repair_that_was_cut_off_between_two_renames_is_finished(data_dir: Path, name: str) -> None:
    FILL[name](data_dir, range(100))
    path = data_dir / PLACES[name]
    kept = path.parent / ".damaged" / f"{name}-20260131T120000Z"
    shutil.copytree(path, kept)
    path.rename(kept.with_name(f"{kept.name}.old"))
    assert main(["storage", "check", name, "--repair", "--data-dir", str(data_dir)]) == 0
    assert HAVE[name](data_dir) == set(range(100))
    assert [entry.name for entry in kept.parent.iterdir()] == [kept.name]
    shutil.rmtree(path)
    assert main(["storage", "check", name, "--repair", "--data-dir", str(data_dir)]) == 1
    with pytest.raises(StorageDamagedError):
        OPEN[name](data_dir)


def damage(table: Path, part: float) -> None:
    """Change a byte of a table."""
    content = bytearray(table.read_bytes())
    content[int(len(content) * part)] ^= 0xFF
    table.write_bytes(content)


def test_positions_in_a_database_that_was_given_up_do_not_name_streams_of_the_next(data_dir: Path) -> None:
    store(data_dir, range(10))
    database = open_messages(data_dir)
    (stream, *_) = database.get_streams("#")
    iterator = database.make_iterator(stream.id, "#")
    database.close()
    shutil.rmtree(data_dir / "storage/messages")
    assert repair_database(data_dir, "messages").begins_anew
    store(data_dir, range(10))
    database = open_messages(data_dir)
    with pytest.raises(DroppedGenerationError):
        database.next(iterator, 10)
    database.close()
    assert read(data_dir) == list(range(10))


def test_a_start_that_was_cut_off_while_a_database_was_made_is_no_damage(data_dir: Path) -> None:
    draft = data_dir / "storage" / ".messages.new"
    draft.mkdir(parents=True)
    (draft / "MANIFEST-000001").write_bytes(b"")
    store(data_dir, range(3))
    assert read(data_dir) == [0, 1, 2]


@pytest.mark.parametrize("text", [None, "", "garbage", "\xff\xff", "0" * 15])
def test_a_site_id_is_never_taken_for_another(data_dir: Path, text: str | None) -> None:
    store(data_dir, range(3))
    site_id = NodeDatabases(data_dir).site_id
    file = data_dir / "storage" / "site_id"
    if text is None:
        file.unlink()
    else:
        file.write_text(text, "latin-1")
    for _ in range(2):
        with pytest.raises(StorageDamagedError, match="heliograph storage check --repair"):
            _ = NodeDatabases(data_dir).site_id
    assert file.exists() == (text is not None)
    repair_database(data_dir, "messages")
    assert NodeDatabases(data_dir).site_id == site_id


def test_a_site_id_of_an_earlier_version_is_guarded_too(data_dir: Path) -> None:
    store(data_dir, range(3))
    site_id = NodeDatabases(data_dir).site_id
    (data_dir / "databases").unlink()  # an earlier version had none
    assert NodeDatabases(data_dir).site_id == site_id
    (data_dir / "storage/site_id").unlink()
    with pytest.raises(StorageDamagedError, match="heliograph storage check --repair"):
        _ = NodeDatabases(data_dir).site_id


def test_the_site_id_that_messages_bears_is_restored(data_dir: Path) -> None:
    file = data_dir / "storage/site_id"
    open_database(data_dir, "audit", DatabaseOptions()).close()
    file.write_text("0123456789abcdef")
    store(data_dir, range(3))
    file.write_text("fedcba9876543210")  # valid, and another
    repair_database(data_dir, "messages")
    assert NodeDatabases(data_dir).site_id == "0123456789abcdef"
    file.unlink()
    repair_database(data_dir, "messages")
    assert NodeDatabases(data_dir).site_id == "0123456789abcdef"


def test_a_site_id_is_restored_where_there_is_no_database(data_dir: Path) -> None:
    _ = NodeDatabases(data_dir).site_id
    (data_dir / "storage/site_id").unlink()
    with pytest.raises(UnknownDatabaseError):
        repair_database(data_dir, "messages")
    assert NodeDatabases(data_dir).site_id


def test_a_check_says_that_nothing_is_left(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(data_dir, range(3))
    retain(data_dir, range(3))
    shutil.rmtree(data_dir / "storage/messages")
    shutil.rmtree(data_dir / "keyed/retained")
    for name in ("messages", "retained"):
        assert main(["storage", "check", name, "--data-dir", str(data_dir)]) == 1
        said = capsys.readouterr()
        assert "its directory is gone or empty" in said.out + said.err
    assert check_state(data_dir, "retained", validator("retained")).is_damaged
    assert repair_state(data_dir, "retained", validator("retained")).begins_anew
    assert sorted(os.listdir(data_dir / "keyed")) == []


def test_structures_that_are_derived_never_hide_one_another() -> None:
    told = {1: ("a", "x"), 2: ("a", "+")}
    derived = {3: ("b", "temp"), 4: ("+", "hum"), 5: ("a", "z", "deep"), 6: ("a", "x", "y"), 7: ("#",)}
    assert settled(told, derived) == {
        3: ("+", "temp"),
        4: ("+", "hum"),
        5: ("a", "+", "deep"),
        6: ("a", "x", "y"),
        7: ("#",),
    }
