"""A database on disk, as its user meets it: storing, replaying, restarting, generations, faults."""

import json
import os
from pathlib import Path

import pytest

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import NodeDatabases, databases_path, existing_databases
from heliograph.storage.engine import Rdict, new_batch, open_primary, records
from heliograph.storage.errors import (
    InvalidFilterError,
    StorageClosedError,
    StorageDamagedError,
    StorageError,
    UnknownLayoutError,
    UnknownStreamError,
)
from heliograph.storage.interface import (
    END_OF_STREAM,
    Batch,
    ColumnarOptions,
    DatabaseOptions,
    EndOfStream,
    StoredMessage,
    StreamId,
)
from heliograph.storage.repair.message_database import repair_database
from storage.messages import MakeMessage
from support.databases import open_database, store_batch


def replay(database: LocalDatabase, topic_filter: str, start: int | None = None, n: int = 7) -> list[StoredMessage]:
    """Everything that a filter finds, streams by rank, through saved iterators."""
    found: list[StoredMessage] = []
    for stream in sorted(database.get_streams(topic_filter, start), key=lambda stream: stream.rank):
        iterator = database.make_iterator(stream.id, topic_filter, start)
        while isinstance(batch := database.next(iterator, n), Batch) and batch.messages:
            assert len(batch.messages) <= n
            found.extend(batch.messages)
            iterator = batch.iterator
    return found


def payloads(messages: list[StoredMessage]) -> list[bytes]:
    return [message.payload for message in messages]


def reopened(database: LocalDatabase, options: DatabaseOptions | None = None) -> LocalDatabase:
    database.close()
    return open_database(database.path.parent.parent, database.name, options or DatabaseOptions())


def test_a_message_comes_back_as_it_was_stored(database: LocalDatabase, make_message: MakeMessage) -> None:
    message = make_message(
        "wetter/ö", b"\0\xff", clientid="ç", username="u", qos=2, retain=True, property_bytes=b"\x01\x01"
    )
    store_batch(database, [message])
    (stored,) = replay(database, "wetter/+")
    assert stored.stored_at > 0
    assert (stored.guid, stored.received_at) == (message.guid, message.id_high)
    for name in ("topic", "payload", "clientid", "username", "qos", "retain", "property_bytes"):
        assert getattr(stored, name) == getattr(message, name)


def test_only_topics_of_the_filter_come_back(database: LocalDatabase, make_message: MakeMessage) -> None:
    topics = [f"weather/{n}/obs" for n in range(40)] + ["weather/3/wind", "$SYS/x"]
    store_batch(database, [make_message(topic, topic.encode()) for topic in topics])
    store_batch(database, [make_message(topic, topic.encode()) for topic in topics])
    assert payloads(replay(database, "weather/33/obs")) == [b"weather/33/obs"] * 2
    assert len(replay(database, "weather/+/obs")) == 80
    assert len(replay(database, "#")) == 82
    assert payloads(replay(database, "$SYS/#")) == [b"$SYS/x"] * 2
    assert replay(database, "weather/99/obs") == []
    assert database.get_streams("other/#") == []


def test_nothing_yet_is_not_the_end_of_the_stream(database: LocalDatabase, make_message: MakeMessage) -> None:
    store_batch(database, [make_message(payload=b"1")])
    (stream,) = database.get_streams("#")
    assert not stream.sealed
    batch = database.next(database.make_iterator(stream.id, "#"), 10)
    assert isinstance(batch, Batch)
    waiting = database.next(batch.iterator, 10)
    assert isinstance(waiting, Batch)
    assert waiting.messages == []
    store_batch(database, [make_message(payload=b"2")])
    following = database.next(waiting.iterator, 10)
    assert isinstance(following, Batch)
    assert payloads(list(following.messages)) == [b"2"]
    database.add_generation()
    assert isinstance(database.next(following.iterator, 10), EndOfStream)
    assert database.next(batch.iterator, 10) != END_OF_STREAM


def test_a_new_generation_follows_the_old_one(database: LocalDatabase, make_message: MakeMessage) -> None:
    store_batch(database, [make_message(payload=b"1")])
    database.add_generation()
    store_batch(database, [make_message(payload=b"2")])
    old, new = database.get_streams("#")
    assert (old.rank.y, new.rank.y) == (1, 2)
    assert old.rank.x == new.rank.x
    assert (old.sealed, new.sealed) == (True, False)
    assert payloads(replay(database, "#")) == [b"1", b"2"]
    first, second = database.list_generations()
    assert first.until == second.since
    assert second.until is None
    assert [stream.id for stream in database.get_streams("#", start=second.since)] == [new.id]
    assert [stream.id for stream in database.get_streams("#", end=second.since)] == [old.id]


def test_a_replay_can_begin_at_a_time(database: LocalDatabase, make_message: MakeMessage) -> None:
    for number in range(5):
        store_batch(database, [make_message(payload=b"%d" % number)])
    third = replay(database, "#")[2].stored_at
    assert payloads(replay(database, "#", third)) == [b"2", b"3", b"4"]
    assert payloads(replay(database, "#", third + 1)) == [b"3", b"4"]


def test_a_restart_changes_nothing(database: LocalDatabase, make_message: MakeMessage) -> None:
    topics = [f"a/{n}/b" for n in range(25)]
    store_batch(database, [make_message(topic, topic.encode()) for topic in topics])
    before, streams, last = replay(database, "#"), database.get_streams("#"), database.statistics()["last_commit_us"]
    again = reopened(database)
    assert replay(again, "#") == before
    store_batch(again, [make_message(topic, topic.encode()) for topic in topics])
    assert again.get_streams("#") == streams
    assert again.statistics()["last_commit_us"] > last
    assert payloads(replay(again, "a/24/b")) == [b"a/24/b"] * 2
    again.close()


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_compression_can_be_chosen_and_changed(data_dir: Path, make_message: MakeMessage, compression: str) -> None:
    options = DatabaseOptions(layout=ColumnarOptions(compression=compression))
    database = open_database(data_dir, options=options)
    store_batch(database, [make_message(payload=b"x" * 100) for _ in range(1_000)])
    again = reopened(database, DatabaseOptions())
    assert len(replay(again, "#", n=400)) == 1_000
    again.close()


def test_time_never_goes_back(database: LocalDatabase, make_message: MakeMessage) -> None:
    """The clock may be set back while the node is down; order within a stream must not depend on it."""
    store_batch(database, [make_message(payload=b"1")])
    database.close()
    future = 4_000_000_000_000_000
    rocks = open_primary(database.path, "zstd")
    rocks.put(keys.last_commit(0), future.to_bytes(8, "big"))
    rocks.close()
    again = reopened(database)
    store_batch(again, [make_message(payload=b"2")])
    store_batch(again, [make_message(payload=b"3")])
    assert [message.stored_at for message in replay(again, "#")][1:] == [future + 1, future + 2]
    again.close()


def test_clients_are_shared_out_over_shards(
    data_dir: Path, make_message: MakeMessage, options: DatabaseOptions
) -> None:
    database = open_database(data_dir, options=options)
    store_batch(database, [make_message(payload=b"%d" % (n % 8), clientid=f"c{n % 8}") for n in range(80)])
    streams = database.get_streams("#")
    assert sorted(stream.rank.x for stream in streams) == [0, 1]
    by_shard = []
    for stream in streams:
        batch = database.next(database.make_iterator(stream.id, "#"), 100)
        assert isinstance(batch, Batch)
        by_shard.append({message.clientid for message in batch.messages})
    assert by_shard[0] | by_shard[1] == {f"c{n}" for n in range(8)}
    assert not by_shard[0] & by_shard[1]
    again = reopened(database, DatabaseOptions(n_shards=5))
    assert len(again.get_streams("#")) == 2
    again.close()


def test_the_site_id_stays(data_dir: Path) -> None:
    first = NodeDatabases(data_dir).site_id
    assert len(first) == 16
    assert NodeDatabases(data_dir).site_id == first
    assert NodeDatabases(data_dir / "other").site_id != first


def test_databases_are_listed_when_they_exist(data_dir: Path) -> None:
    path = databases_path(data_dir)
    assert existing_databases(path) == []
    open_database(data_dir).close()
    assert existing_databases(path) == ["messages"]


def test_a_large_batch_is_cut_into_blocks_and_keeps_its_order(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    messages = [make_message(payload=b"%d" % n) for n in range(5_000)]
    messages += [make_message(payload=b"x" * 3_000_000) for _ in range(3)]
    store_batch(database, messages)
    assert payloads(replay(database, "#", n=1_000)) == payloads(messages)


def test_a_damaged_block_is_named(database: LocalDatabase, make_message: MakeMessage) -> None:
    store_batch(database, [make_message(payload=b"good")])
    store_batch(database, [make_message(payload=b"bad")])
    database.close()
    rocks = open_primary(database.path, "zstd")
    key, value = list(records(rocks, b"B", b"C"))[1]
    rocks.put(key, value[:-8] + b"\x01" + value[-7:])
    rocks.close()
    again = reopened(database)
    (stream,) = again.get_streams("#")
    iterator = again.make_iterator(stream.id, "#")
    first = again.next(iterator, 1)
    assert isinstance(first, Batch)
    assert payloads(list(first.messages)) == [b"good"]
    with pytest.raises(StorageDamagedError) as caught:
        again.next(first.iterator, 1)
    time, _ = keys.time_and_sequence(key)
    for part in ("database 'messages'", "shard 0", f"stream '{stream.id}'", str(time), "checksum"):
        assert part in str(caught.value)
    store_batch(again, [make_message(payload=b"new")])
    after = again.make_iterator(stream.id, "#", time + 1)
    behind = again.next(after, 1)
    assert isinstance(behind, Batch)
    assert payloads(list(behind.messages)) == [b"new"]
    again.close()


def test_a_damaged_file_is_refused_and_named(database: LocalDatabase, make_message: MakeMessage) -> None:
    store_batch(database, [make_message(payload=b"x" * 1000) for _ in range(100)])
    database.close()
    (table,) = database.path.glob("*.sst")
    table.write_bytes(table.read_bytes()[:100])
    with pytest.raises(StorageDamagedError, match="database 'messages'"):
        reopened(database)


def test_a_damaged_part_of_a_file_does_not_stop_writing(database: LocalDatabase, make_message: MakeMessage) -> None:
    for _ in range(5):
        store_batch(database, [make_message(payload=os.urandom(50_000))])
    database.close()
    (table,) = database.path.glob("*.sst")
    content = bytearray(table.read_bytes())
    content[100_000:-15_000:100] = bytes(byte ^ 255 for byte in content[100_000:-15_000:100])
    table.write_bytes(content)
    again = reopened(database)
    with pytest.raises(StorageDamagedError, match="database 'messages'"):
        replay(again, "#")
    for number in range(2):
        store_batch(again, [make_message(payload=b"%d" % number)])
    again.close()
    assert repair_database(database.path.parent.parent, "messages").messages == 1 + 2
    again.open()
    assert payloads(replay(again, "#"))[-2:] == [b"0", b"1"]
    again.close()


def test_a_database_of_a_later_version_is_refused(database: LocalDatabase) -> None:
    _rewrite(database, keys.generation(0, 1), "version", 9)
    with pytest.raises(
        UnknownLayoutError, match="'columnar' version 9; this version knows 'columnar' versions 1, 2 and 3"
    ):
        reopened(database)
    _rewrite(database, keys.META, "format", 7)
    with pytest.raises(UnknownLayoutError, match="key format is 7, and this version knows 1"):
        reopened(database)


def _rewrite(database: LocalDatabase, key: bytes, field: str, value: int) -> None:
    database.close()
    rocks: Rdict = open_primary(database.path, "zstd")
    batch = new_batch()
    batch.put(key, json.dumps({**json.loads(rocks.get(key) or b"{}"), field: value}).encode())
    rocks.write(batch)
    rocks.close()


def test_what_does_not_exist_is_named(database: LocalDatabase, make_message: MakeMessage) -> None:
    with pytest.raises(UnknownStreamError, match="there is no stream 'messages/0/1/9'"):
        database.make_iterator(StreamId("messages", 0, 1, 9), "#")
    with pytest.raises(InvalidFilterError, match="a/#/b"):
        database.get_streams("a/#/b")
    with pytest.raises(ValueError, match="compression is 'gzip'; valid are zstd, lz4, none"):
        NodeDatabases(database.path).database("x", DatabaseOptions(layout=ColumnarOptions(compression="gzip")))
    database.close()
    with pytest.raises(StorageClosedError, match="database 'messages'"):
        store_batch(database, [make_message()])


def test_a_database_in_use_is_refused(database: LocalDatabase) -> None:
    with pytest.raises(StorageError, match="lock"):
        open_database(database.path.parent.parent)


def test_what_is_remembered_of_long_topics_is_bounded_and_told(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    tail = "x" * 900
    sizes = []
    for batch in range(6):
        messages = [make_message(f"device/{batch}-{number}/{tail}", b"") for number in range(5000)]
        store_batch(database, messages)
        sizes.append(database.statistics()["topics.memory_bytes"])
    assert sizes[1] > 10_000 * 900
    assert max(sizes) < 20 << 20
    assert sizes[-1] < 6 * 5000 * 900
