"""Bulk readers get the same streams, plans and rows after offload, also from positions that were saved before."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from heliograph.config.storage import OffloadConfig
from heliograph.storage.columnar.arrow_rows import PUBLIC_SCHEMA
from heliograph.storage.columnar.offloaded import OffloadError
from heliograph.storage.interface import DatabaseOptions
from heliograph.storage.reader.databases import StorageReader
from heliograph.storage.reader.request import Request
from storage.messages import MakeMessage
from storage.offloading import files_of, fill, offload
from support.databases import open_database, store_batch
from support.s3 import s3_server


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


def test_a_read_of_a_store_fetches_row_groups_together(
    data_dir: Path, make_message: MakeMessage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ada")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    database = open_database(data_dir)
    payloads = [bytes([number]) * 700_000 for number in range(1, 61)]
    for payload in payloads:  # a row group has two of them
        store_batch(database, [make_message("a/1", payload)])
    database.add_generation()
    with s3_server() as store:
        options = {"endpoint_override": store.endpoint, "scheme": "http", "region": "eu"}
        offload(database, 1, OffloadConfig(target="s3://lake/cold", storage_options=options).place)
        (file,) = [key for key in store.listed() if key.endswith(".parquet")]
        assert parquet.read_metadata(pa.BufferReader(store.get(file))).num_row_groups == 30
        reader = BulkReader(data_dir, tmp_path / "scratch")
        (stream,) = [one["stream"] for one in reader.streams("#") if one["sealed"]]
        store.gets()
        assert reader.read(stream, columns=["payload"])["payload"].to_pylist() == payloads
        assert store.gets() <= 10
    database.close()
