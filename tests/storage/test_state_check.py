"""Checking and mending databases of state: what is damaged is named, and everything else is kept."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.storage.engine import open_primary
from heliograph.storage.errors import StorageError, UnknownDatabaseError
from heliograph.storage.repair.record_database import check_state, repair_state
from heliograph.storage.state.interface import StateBatch
from heliograph.storage.state.local import LocalState

RECORDS = {b"s%05d" % number: b"%05d" % number * 40 for number in range(3000)}


def is_wrong(key: bytes, value: bytes) -> str | None:
    """What the tests say about a record."""
    return None if RECORDS.get(key) == value else "it is another one"


def use(data_dir: Path, act: Callable[[LocalState], object]) -> object:
    """Do something with the database `sessions`, and close it."""

    async def run() -> object:
        state = LocalState(data_dir, "sessions")
        state.open()
        try:
            return act(state)
        finally:
            await state.close()

    return asyncio.run(run())


@pytest.fixture
def filled(data_dir: Path) -> Path:
    """A data directory with the records; the directory of their database."""

    def fill(state: LocalState) -> None:
        batch = StateBatch()
        for key, value in RECORDS.items():
            batch.put(key, value)
        state.submit(batch)

    use(data_dir, fill)
    return data_dir / "state" / "sessions"


def everything(data_dir: Path) -> dict[bytes, bytes]:
    """All records, as the broker reads them."""
    found = use(data_dir, lambda state: dict(state.scan(limit=10_000)))
    assert isinstance(found, dict)
    return found


def test_a_whole_database_is_whole_and_left_alone(filled: Path, data_dir: Path) -> None:
    report = repair_state(data_dir, "sessions", is_wrong)
    assert (report.is_damaged, report.records, report.kept) == (False, len(RECORDS) + 1, None)
    assert everything(data_dir) == RECORDS


def test_records_around_a_damaged_piece_of_a_file_are_kept(filled: Path, data_dir: Path) -> None:
    (table,) = filled.glob("*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.write_bytes(data)
    report = check_state(data_dir, "sessions", is_wrong)
    assert report.is_damaged
    assert "cannot be read" in report.problems[0]
    mended = repair_state(data_dir, "sessions", is_wrong)
    assert mended.kept is not None
    assert (mended.kept / "CURRENT").is_file()
    left = everything(data_dir)
    assert left.items() < RECORDS.items()
    assert min(RECORDS) in left
    assert max(RECORDS) in left
    assert mended.records == len(left) + 1
    assert not check_state(data_dir, "sessions", is_wrong).is_damaged


def test_records_that_nobody_can_read_are_left_out(filled: Path, data_dir: Path) -> None:
    rocks = open_primary(filled, "lz4")
    rocks.put(b"Ks00007", b"what is this?")
    rocks.close()
    assert check_state(data_dir, "sessions", is_wrong).problems == ["the record b's00007': it is another one"]
    repair_state(data_dir, "sessions", is_wrong)
    assert everything(data_dir) == {key: value for key, value in RECORDS.items() if key != b"s00007"}


@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*"])
def test_a_database_that_cannot_be_opened_is_mended_from_its_tables(filled: Path, data_dir: Path, pattern: str) -> None:
    (file,) = filled.glob(pattern)
    file.write_bytes(b"\xff\x00garbage" * 9)
    with pytest.raises(StorageError):
        everything(data_dir)
    assert check_state(data_dir, "sessions", is_wrong).is_damaged
    repair_state(data_dir, "sessions", is_wrong)
    assert everything(data_dir) == RECORDS


def test_an_unknown_database_is_named(filled: Path, data_dir: Path) -> None:
    with pytest.raises(UnknownDatabaseError, match="there are: sessions"):
        check_state(data_dir, "session", is_wrong)
