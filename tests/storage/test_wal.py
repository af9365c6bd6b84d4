"""Which log files a sync covers, and what a failed one leads to."""

import errno
import gc
import os
from pathlib import Path

import pytest

from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.interface import Batch
from heliograph.storage.store import Store, open_stores
from heliograph.storage.wal import LogFiles, SyncRequest
from storage.messages import MakeMessage
from support.databases import store_batch


def test_a_sync_covers_every_log_file_written_since_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "999999.log").touch()
    logs = LogFiles(tmp_path)
    logs.written()
    assert len(logs.sync_request().descriptors) == 1
    (tmp_path / "1000004.log").touch()  # the log went on in a new file before the old one was synced
    logs.written()
    request = logs.sync_request()
    assert len(request.descriptors) == 2
    request.run()
    logs.synced(request.write_count)
    assert len(logs.sync_request().descriptors) == 0
    logs.written()
    request = logs.sync_request()
    assert len(request.descriptors) == 1
    logs.written()  # while the sync runs
    request.run()
    logs.synced(request.write_count)
    assert len(logs.sync_request().descriptors) == 1
    logs.close()


def test_a_log_file_that_is_gone_needs_no_sync(tmp_path: Path) -> None:
    (tmp_path / "000004.log").touch()
    logs = LogFiles(tmp_path)
    logs.written()
    (tmp_path / "000004.log").unlink()
    (tmp_path / "000009.log").touch()
    logs.written()
    logs.sync_request().run()
    logs.close()


def test_a_log_file_that_rocksdb_deletes_while_it_is_looked_for_needs_no_sync(tmp_path: Path) -> None:
    (tmp_path / "000004.log").symlink_to(tmp_path / "gone")  # stands in the directory and cannot be opened
    (tmp_path / "000009.log").touch()
    logs = LogFiles(tmp_path)
    logs.written()
    request = logs.sync_request()
    assert len(request.descriptors) == 1
    request.run()
    logs.close()


@pytest.mark.slow
def test_no_commit_is_left_out_when_rocksdb_begins_a_new_log(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    covered = []
    for _ in range(45):
        database.write([make_message(payload=os.urandom(1_000_000))])
        covered.append(len(database.sync_request().descriptors))
    assert min(covered) == 1
    assert max(covered) > 1
    database.finish_sync(database.sync_request(), None)
    assert len(database.sync_request().descriptors) == 0


def test_after_a_failed_sync_the_log_is_not_trusted(database: LocalDatabase, make_message: MakeMessage) -> None:
    database.write([make_message(payload=b"1")])
    database.finish_sync(database.sync_request(), OSError(errno.EIO, os.strerror(errno.EIO)))
    assert list(database.path.glob("*.sst")), "what memory held was written to a new file, so the commit is durable"
    store_batch(database, [make_message(payload=b"2")])
    (stream,) = database.get_streams("#")
    batch = database.next(database.make_iterator(stream.id, "#"), 10)
    assert isinstance(batch, Batch)
    assert [message.payload for message in batch.messages] == [b"1", b"2"]


def test_a_log_that_begins_between_two_writes_is_noticed(database: LocalDatabase, make_message: MakeMessage) -> None:
    """The directory is only looked at when RocksDB has begun another memtable."""
    for _ in range(3):
        for _ in range(3):
            store_batch(database, [make_message()])
            (log,) = newest_logs(database.path)
            database.write([make_message()])
            assert log in descriptors_of(database.sync_request())
        database.contents()[0].flush()


def newest_logs(path: Path) -> list[str]:
    return [str(max(path.glob("*.log"), key=lambda log: int(log.stem)))]


def descriptors_of(request: SyncRequest) -> list[str]:
    return [os.readlink(f"/proc/self/fd/{descriptor}") for descriptor in request.descriptors]


def test_the_databases_that_are_open_are_not_kept_open(tmp_path: Path) -> None:
    store = Store("kept", tmp_path / "state" / "kept", "lz4", lambda rocks: None)
    store.open()
    assert list(open_stores(tmp_path)) == [store.path]
    held = _files_below(tmp_path)
    del store
    gc.collect()
    assert open_stores(tmp_path) == {}
    assert "LOCK" in held - _files_below(tmp_path)  # RocksDB is closed


def _files_below(path: Path) -> set[str]:
    files = [Path(os.path.realpath(one)) for one in Path("/proc/self/fd").iterdir()]
    return {file.name for file in files if file.is_relative_to(path)}
