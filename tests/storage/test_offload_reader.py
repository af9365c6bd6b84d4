"""Bulk readers get the same streams, plans and rows after offload, also from positions that were saved before."""

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from heliograph.config.storage import OffloadConfig
from heliograph.storage.columnar.arrow_rows import PUBLIC_SCHEMA, RowCollector
from heliograph.storage.columnar.offloaded import OffloadError
from heliograph.storage.columnar.plan import ReadLimits, split_range
from heliograph.storage.columnar.replay import block_slices
from heliograph.storage.columnar.secondary import reading
from heliograph.storage.interface import BEGINNING, END, DatabaseOptions, StoredMessage
from heliograph.storage.offload.blocks import OffloadedBlocks
from heliograph.storage.offload.files import everything
from heliograph.storage.reader.databases import StorageReader
from heliograph.storage.reader.request import Request
from storage.messages import MakeMessage
from storage.offloading import files_of, fill, offload
from support.databases import open_database, store_batch
from support.s3 import S3Server, s3_server


class BulkReader:
    """The reader process without its process."""

    def __init__(self, data_dir: Path, scratch: Path) -> None:
        scratch.mkdir(exist_ok=True)
        self._reader = StorageReader(data_dir, scratch)

    def plan(self, **fields: object) -> dict[str, Any]:
        """The answer to the action."""
        return json.loads(json.dumps(self._reader.plan(self._request(**fields))))  # type: ignore[no-any-return]  # a plan is an object

    def streams(self, *topics: str) -> Any:
        """The answer to the action."""
        return self._reader.get_streams(self._request(topics=topics))["streams"]

    def info(self) -> dict[str, object]:
        """The answer to the action."""
        return self._reader.info(self._request())

    def offloaded(self) -> Any:
        """The answer to the action."""
        return self._reader.offloaded(self._request())["generations"]

    def read(self, stream: str, **fields: object) -> pa.Table:
        """All rows of a read."""
        schema, batches = self._reader.read(self._request(stream=stream, **fields))
        return pa.Table.from_batches([one for one in batches if isinstance(one, pa.RecordBatch)], schema)

    def _request(self, **fields: object) -> Request:
        return Request(json.dumps({"database": "messages", "topics": ["#"], **fields}).encode())


def test_everything_is_answered_as_before(
    data_dir: Path, options: DatabaseOptions, make_message: MakeMessage, tmp_path: Path
) -> None:
    database = open_database(data_dir, options=options)
    fill(database, make_message)
    database.add_generation()
    fill(database, make_message, commits=10)
    reader = BulkReader(data_dir, tmp_path / "scratch")
    streams = reader.streams("#")
    halfway = reader.plan(max_messages=70)
    positions = {stream: step["position"] for stream, step in halfway["streams"].items()}
    times = sorted(
        time for one in streams for time in reader.read(one["stream"])["stored_at"].cast("int64").to_pylist()
    )
    ranges: list[dict[str, object]] = [
        {},
        {"topics": ["fleet/5/pos"]},
        {"topics": ["fleet/+/pos", "x/#"], "columns": ["topic", "stored_at", "properties"]},
        {"start": times[20], "end": times[90]},
        {"columns": []},
        {"on_damage": "skip"},
    ]
    ranges += [{"columns": [name]} for name in PUBLIC_SCHEMA.names]

    def answers() -> list[object]:
        reads = [reader.read(one["stream"], **fields) for one in streams for fields in ranges]
        reads += [reader.read(stream, **{"from": position}) for stream, position in positions.items()]
        reads += [reader.read(stream, to=position) for stream, position in positions.items()]
        plans = [reader.plan(max_messages=most, positions=positions) for most in (None, 1, 30, 500)]
        return [reader.streams("fleet/5/pos"), reader.info(), plans, reads]

    before = answers()
    assert reader.offloaded() == []
    offload(database, 1, str(tmp_path / "cold"))
    assert answers() == before
    (told,) = reader.offloaded()
    assert told["generation"] == 1
    assert {Path(file["target"], file["path"]) for file in told["files"]} == set(files_of(tmp_path / "cold"))
    for file in files_of(tmp_path / "cold"):
        file.rename(file.with_suffix(".away"))
    reader = BulkReader(data_dir, tmp_path / "scratch")
    old, new = (next(one["stream"] for one in streams if one["generation"] == number) for number in (1, 2))
    for on_damage in ("fail", "skip"):
        with pytest.raises(OffloadError, match=r"cold/.*parquet"):
            reader.read(old, on_damage=on_damage)
    assert reader.read(new).num_rows
    database.close()


@pytest.fixture
def s3_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[S3Server, str]]:
    """A server of a bucket, and a place in it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ada")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with s3_server() as store:
        options = {"endpoint_override": store.endpoint, "scheme": "http", "region": "eu"}
        yield store, OffloadConfig(target="s3://lake/cold", storage_options=options).place


def _offloaded(data_dir: Path, commits: list[list[StoredMessage]], place: tuple[S3Server, str]) -> int:
    """Store and offload commits of one stream; the number of row groups."""
    store, target = place
    database = open_database(data_dir)
    for messages in commits:
        store_batch(database, messages)
    database.add_generation()
    offload(database, 1, target)
    database.close()
    (file,) = [key for key in store.listed() if key.endswith(".parquet")]
    groups: int = parquet.read_metadata(pa.BufferReader(store.get(file))).num_row_groups
    store.gets()
    store.given_bytes()
    return groups


def test_a_read_of_a_store_fetches_row_groups_together(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path, s3_place: tuple[S3Server, str]
) -> None:
    # What is read of a row group is before and after some 30 KiB of client ids, which are not read.
    chance = random.Random(1)
    commits = [
        [make_message("a/1", bytes([number]) * 1_000, clientid=chance.randbytes(16).hex()) for _ in range(700)]
        for number in range(60)
    ]
    assert _offloaded(data_dir, commits, s3_place) == 30
    reader = BulkReader(data_dir, tmp_path / "scratch")
    (stream,) = [one["stream"] for one in reader.streams("#") if one["sealed"]]
    payloads = [message.payload for messages in commits for message in messages]
    assert reader.read(stream, columns=["payload"])["payload"].to_pylist() == payloads
    assert s3_place[0].gets() <= 4  # the footer, the first row group, 16 of them, and the rest


def test_a_damaged_row_group_does_not_keep_those_before_it(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path
) -> None:
    chance = random.Random(1)
    payloads = [chance.randbytes(700_000) for _ in range(20)]
    database = open_database(data_dir)
    for payload in payloads:
        store_batch(database, [make_message("a/1", payload)])
    database.add_generation()
    offload(database, 1, str(tmp_path / "cold"))
    (file,) = files_of(tmp_path / "cold")
    metadata = parquet.read_metadata(file)
    assert metadata.num_row_groups == 10
    column = metadata.schema.names.index("payload")
    damaged = metadata.row_group(6).column(column).data_page_offset + 500_000
    content = bytearray(file.read_bytes())
    content[damaged] ^= 1
    file.write_bytes(content)
    reader = BulkReader(data_dir, tmp_path / "scratch")
    (stream,) = [one["stream"] for one in reader.streams("#") if one["sealed"]]
    before = reader.plan(max_messages=12)["streams"][stream]  # of the first six row groups
    found = reader.read(stream, to=before["position"], columns=["payload"])
    assert found["payload"].to_pylist() == payloads[: before["messages"]]
    with pytest.raises(OffloadError, match="CRC"):
        reader.read(stream, columns=["payload"])
    database.close()


def test_payloads_that_are_not_read_are_not_fetched(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path, s3_place: tuple[S3Server, str]
) -> None:
    chance = random.Random(1)
    commits = [[make_message(f"a/{number}", chance.randbytes(700_000))] for number in range(60)]
    assert _offloaded(data_dir, commits, s3_place) == 30
    reader = BulkReader(data_dir, tmp_path / "scratch")
    found = [reader.read(one["stream"], columns=["topic"]) for one in reader.streams("#") if one["sealed"]]
    topics = [topic for table in found for topic in table["topic"].to_pylist()]
    assert sorted(topics) == sorted(messages[0].topic for messages in commits)
    assert s3_place[0].given_bytes() < 2_000_000  # of 42 million
    found = [reader.read(one["stream"], columns=["payload"]) for one in reader.streams("#") if one["sealed"]]
    payloads = [payload for table in found for payload in table["payload"].to_pylist()]
    assert sorted(payloads) == sorted(messages[0].payload for messages in commits)


def test_clients_are_chosen_without_the_column_that_names_them(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path
) -> None:
    database = open_database(data_dir)
    store_batch(database, [make_message("a", b"%d" % number, clientid="ab"[number % 2]) for number in range(10)])
    database.add_generation()
    reader = BulkReader(data_dir, tmp_path / "scratch")
    (stream,) = [one["stream"] for one in reader.streams("#") if one["sealed"]]
    before = reader.read(stream, columns=["payload"], clientids=["a"])
    assert before["payload"].to_pylist() == [b"0", b"2", b"4", b"6", b"8"]
    offload(database, 1, str(tmp_path / "cold"))
    assert reader.read(stream, columns=["payload"], clientids=["a"]) == before
    database.close()


def test_many_readers_of_one_file_get_all_rows(data_dir: Path, make_message: MakeMessage, tmp_path: Path) -> None:
    """More than what is kept for them, so that one's row groups go for another's."""
    database = open_database(data_dir)
    payloads = [bytes([number]) * 700_000 for number in range(1, 121)]
    for payload in payloads:
        store_batch(database, [make_message("a/1", payload)])
    database.add_generation()
    offload(database, 1, str(tmp_path / "cold"))
    offloaded = OffloadedBlocks(data_dir, ahead=2)
    with reading(data_dir, "messages") as (rocks, catalog):
        (stream,) = [stream for stream in catalog.all_streams() if stream.generation == 1]
        steps = split_range(rocks, stream, BEGINNING, END, ReadLimits(10, None))

        def read(begin: int) -> list[bytes]:
            after = steps[begin - 1].position if begin else BEGINNING
            pieces = block_slices(rocks, stream, everything(stream), after, END)
            batches = RowCollector(stream, None, ["payload"]).batches(
                pieces, offloaded.reading(rocks, stream, ["payload"])
            )
            return [payload for batch in batches for payload in batch["payload"].to_pylist()]

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(read, range(len(steps))))
    begins = [0, *accumulate(step.rows for step in steps[:-1])]
    assert found == [payloads[begin:] for begin in begins]
    offloaded.close()
    database.close()
