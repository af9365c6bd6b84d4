"""Reads without columns: as many rows as a reader would be given, from blocks that are not read."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.engine import records
from heliograph.storage.erasure.messages import erase_messages
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.errors import StorageDamagedError
from heliograph.storage.interface import ColumnarOptions, DatabaseOptions
from heliograph.storage.reader.databases import StorageReader
from heliograph.storage.reader.request import Request
from heliograph.storage.repair.message_database import repair_database
from storage.messages import MakeMessage
from storage.offloading import fill, offload
from support.databases import open_database, store_batch

DATABASE = "messages"
OPTIONS = DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=(100, 2)))
COLD = "cold"


class Reads:
    """A reader of the database, asked in this process."""

    def __init__(self, data_dir: Path, scratch: Path) -> None:
        self._reader = StorageReader(data_dir, scratch)

    def streams(self) -> list[str]:
        found = self._reader.get_streams(_request())["streams"]
        assert isinstance(found, list)
        return [one["stream"] for one in found]

    def rows(
        self, stream: str, columns: list[str], may_read: Callable[[str], bool] | None, fields: Mapping[str, object]
    ) -> Iterator[tuple[str, int]]:
        """The positions and times of rows; without columns, an empty one for each."""
        _, batches = self._reader.read(_request(stream=stream, columns=columns, **fields), may_read)
        for batch in batches:
            assert not isinstance(batch, tuple)
            if columns:
                yield from zip(batch["position"].to_pylist(), batch["stored_at"].cast("int64").to_pylist(), strict=True)
            else:
                yield from [("", 0)] * batch.num_rows

    def count(self, stream: str, *, may_read: Callable[[str], bool] | None = None, **fields: object) -> int:
        """How many rows a read without columns gives."""
        return len(list(self.rows(stream, [], may_read, fields)))

    def count_after(self, stream: str, position: str, to: str | None = None) -> int:
        """As `count`, between two positions."""
        return len(list(self.rows(stream, [], None, {"from": position, "to": to})))

    def positions(self, stream: str, **fields: object) -> list[tuple[str, int]]:
        return list(self.rows(stream, ["position", "stored_at"], None, fields))

    def rows_read(self) -> int:
        """How many rows of blocks were looked into by all reads so far."""
        read = self._reader.info(Request(b"{}"))["read"]
        assert isinstance(read, dict)
        return int(read["rows_read"])


def _request(**fields: object) -> Request:
    return Request(json.dumps({"database": DATABASE, "topics": ["#"]} | fields).encode())


@pytest.fixture
def reads(data_dir: Path, tmp_path: Path) -> Reads:
    """A reader of what a test stores."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Reads(data_dir, scratch)


def _merge(database: LocalDatabase) -> None:
    options = CompactionOptions(min_age_us=0, min_blocks=2, max_rows=20, max_shared_rows=20)
    compactor = Compactor(database, options)
    while compactor.step(1 << 60):
        pass


def test_a_count_between_any_bounds_looks_into_no_block(
    data_dir: Path, reads: Reads, make_message: MakeMessage
) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    _merge(database)
    fill(database, make_message, commits=5)
    rows = {stream: reads.positions(stream) for stream in reads.streams()}
    assert sum(map(len, rows.values())) > 100
    looked_at = reads.rows_read()
    for stream, places in rows.items():
        assert reads.count(stream) == len(places)
        for first in range(0, len(places), 3):
            assert reads.count_after(stream, places[first][0]) == len(places) - first - 1
            for last in range(first, len(places), 7):
                assert reads.count_after(stream, places[first][0], places[last][0]) == last - first
        times = sorted({time for _, time in places})
        for begin, end in zip(times, times[2:], strict=False):
            within = sum(begin <= time < end for _, time in places)
            assert reads.count(stream, start=begin, end=end) == within
    assert reads.rows_read() == looked_at
    database.close()


def test_a_count_takes_only_what_was_asked_for(data_dir: Path, reads: Reads, make_message: MakeMessage) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)

    def count(may_read: Callable[[str], bool] | None = None, **fields: object) -> int:
        return sum(reads.count(stream, may_read=may_read, **fields) for stream in reads.streams())

    def found(**fields: object) -> int:
        return sum(len(reads.positions(stream, **fields)) for stream in reads.streams())

    assert count(topics=["fleet/3/pos"]) == found(topics=["fleet/3/pos"]) > 0
    assert count(clientids=["ada"]) == found(clientids=["ada"]) > 0
    assert count(shards=[1]) == found(shards=[1]) > 0
    assert count(may_read=lambda topic: topic == "fleet/3/pos") == count(topics=["fleet/3/pos"])
    database.close()


@pytest.mark.parametrize("is_offloaded", [False, True])
def test_erased_rows_are_not_counted(
    data_dir: Path, reads: Reads, make_message: MakeMessage, is_offloaded: bool
) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.add_generation()
    if is_offloaded:
        offload(database, 1, COLD)
    database.close()
    erase_messages(data_dir, DATABASE, ErasureSubject(clientid="ada"), set(), is_tried=False)
    counts = {stream: reads.count(stream) for stream in reads.streams()}
    assert counts == {stream: len(reads.positions(stream)) for stream in counts}
    assert sum(counts.values()) > 0


def test_offloaded_rows_are_counted_without_their_files(
    data_dir: Path, reads: Reads, make_message: MakeMessage
) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.add_generation()
    counts = {stream: len(reads.positions(stream)) for stream in reads.streams()}
    offload(database, 1, COLD)
    shutil.rmtree(data_dir / COLD)
    assert {stream: reads.count(stream) for stream in reads.streams()} == counts
    database.close()


def test_a_damaged_end_fails_a_count_as_it_fails_a_read(
    data_dir: Path, reads: Reads, make_message: MakeMessage
) -> None:
    database = open_database(data_dir, options=DatabaseOptions(n_shards=1))
    for number in range(4):
        store_batch(database, [make_message(payload=b"%d" % number)] * 5)
    rocks = database.contents()[0]
    key, value = list(records(rocks, b"B", b"C"))[-1]
    rocks.put(key, value[:-4] + b"\x07" + value[-3:])
    (stream,) = reads.streams()
    with pytest.raises(StorageDamagedError, match="checksum"):
        reads.count(stream)
    database.close()


def test_a_repaired_database_counts_what_it_gives(data_dir: Path, reads: Reads, make_message: MakeMessage) -> None:
    database = open_database(data_dir, options=OPTIONS)
    fill(database, make_message)
    database.close()
    erase_messages(data_dir, DATABASE, ErasureSubject(clientid="ada"), set(), is_tried=False)
    database = open_database(data_dir, options=OPTIONS)
    rocks = database.contents()[0]
    key, value = list(records(rocks, b"B", b"C"))[3]
    rocks.put(key, value[:-4] + b"\x07" + value[-3:])
    for key, _ in list(records(rocks, keys.erased(0, 0), keys.erased(9, 0))):
        rocks.delete(key)
    database.close()
    repair_database(data_dir, DATABASE)
    counts = {stream: reads.count(stream) for stream in reads.streams()}
    assert counts == {stream: len(reads.positions(stream)) for stream in counts}
