"""Generations: made by time, by size and on demand; replays span them; what is dropped is gone at once, and said."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.retention import (
    GenerationRetention,
    RetentionOptions,
    Usage,
    due_drop,
    is_rotation_due,
)
from heliograph.storage.engine import open_primary, records
from heliograph.storage.errors import (
    DroppedGenerationError,
    StorageFullError,
    UnknownGenerationError,
    UnknownStreamError,
)
from heliograph.storage.interface import (
    Batch,
    ColumnarOptions,
    DatabaseOptions,
    GenerationInfo,
    Position,
    StoredMessage,
)
from heliograph.storage.reader.databases import StorageReader
from heliograph.storage.reader.request import Request
from storage.messages import MakeMessage
from support.cases import cases
from support.databases import open_database, store_batch

DAY = 86_400_000_000


def replay(database: LocalDatabase, topic_filter: str = "#") -> list[StoredMessage]:
    found: list[StoredMessage] = []
    for stream in sorted(database.get_streams(topic_filter), key=lambda stream: stream.rank):
        iterator = database.make_iterator(stream.id, topic_filter)
        while isinstance(batch := database.next(iterator, 100), Batch) and batch.messages:
            found.extend(batch.messages)
            iterator = batch.iterator
    return found


def payloads(messages: Sequence[StoredMessage]) -> list[bytes]:
    return [message.payload for message in messages]


def numbers(database: LocalDatabase) -> list[int]:
    return [generation.number for generation in database.list_generations()]


def reopened(database: LocalDatabase, options: DatabaseOptions | None = None) -> LocalDatabase:
    database.close()
    return open_database(database.path.parent.parent, database.name, options or DatabaseOptions())


def wait_until_freed(database: LocalDatabase) -> None:
    """Return when the thread that removes the files of what was dropped has ended."""
    for thread in threading.enumerate():
        if thread.name == f"storage-free-{database.name}":
            thread.join()
    assert not database.usage().is_freeing


@pytest.fixture
def three(database: LocalDatabase, make_message: MakeMessage) -> LocalDatabase:
    """A database with three generations: `1`, `2` and `3` are stored in one each."""
    for payload in (b"1", b"2", b"3"):
        if payload != b"1":
            database.add_generation()
        store_batch(database, [make_message(payload=payload), make_message("other/topic", payload)])
    return database


def test_a_dropped_generation_is_gone_at_once_and_after_a_restart(three: LocalDatabase) -> None:
    three.drop_generation(1)
    assert payloads(replay(three, "weather/#")) == [b"2", b"3"]
    again = reopened(three)
    assert payloads(replay(again, "weather/#")) == [b"2", b"3"]
    assert numbers(again) == [2, 3]
    again.drop_generation(2)
    assert payloads(replay(again)) == [b"3", b"3"]
    again.close()


def test_what_cannot_be_dropped_is_said(three: LocalDatabase) -> None:
    with pytest.raises(UnknownGenerationError, match="generation 3 is the current one"):
        three.drop_generation(3)
    with pytest.raises(UnknownGenerationError, match="there is no generation 7; there are 1, 2, 3"):
        three.drop_generation(7)
    three.drop_generation(2)
    with pytest.raises(UnknownGenerationError, match="there is no generation 2; there are 1, 3"):
        three.drop_generation(2)
    assert payloads(replay(three, "weather/#")) == [b"1", b"3"]


def test_an_iterator_of_a_dropped_generation_says_so(three: LocalDatabase) -> None:
    stream = three.get_streams("weather/#")[0]
    iterator = three.make_iterator(stream.id, "#")
    three.drop_generation(1)
    for is_restarted in (False, True):
        database = reopened(three) if is_restarted else three
        with pytest.raises(DroppedGenerationError, match="generation 1 was dropped, and stream 'messages/0/1/1' with"):
            database.next(iterator, 1)
        with pytest.raises(DroppedGenerationError):
            database.make_iterator(stream.id, "#")
    database.close()


def test_how_much_a_reader_missed_can_be_told(database: LocalDatabase, make_message: MakeMessage) -> None:
    store_batch(database, [make_message(payload=b"%d" % number) for number in range(10)])
    (stream,) = database.get_streams("#")
    iterator = database.make_iterator(stream.id, "#")
    half, whole = database.next(iterator, 5), database.next(iterator, 10)
    assert isinstance(half, Batch)
    assert isinstance(whole, Batch)
    done = database.next(whole.iterator, 1)
    assert isinstance(done, Batch)
    database.add_generation()
    database.drop_generation(1)
    catalog = database.contents()[1]
    dropped = catalog.dropped(stream.id)
    assert dropped is not None
    assert dropped.lost_rows(1, half.iterator.position) == 10
    assert dropped.lost_rows(1, done.iterator.position) == 0
    assert dropped.lost_rows(2, Position(0, 0, 0)) == 0
    assert catalog.dropped(stream.id._replace(generation=2)) is None


def test_dropping_frees_the_files(database: LocalDatabase, make_message: MakeMessage) -> None:
    block = b"".join(number.to_bytes(4, "big") for number in range(50_000))
    for number in range(20):
        store_batch(database, [make_message(payload=block[number:] + block[:number])])
    database.contents()[0].flush()
    database.add_generation()
    store_batch(database, [make_message(payload=b"kept")])
    before = database.usage().table_bytes
    database.drop_generation(1)
    wait_until_freed(database)
    assert database.usage().table_bytes < before / 10
    assert payloads(replay(database)) == [b"kept"]
    database.close()
    rocks = open_primary(database.path, "zstd")
    for kind in (b"B", b"N", b"S", b"X"):
        for key, _ in records(rocks, kind, bytes([kind[0] + 1])):
            assert key[3:7] != b"\0\0\0\1"
    rocks.close()


def test_closing_while_files_are_freed_waits_for_it(three: LocalDatabase) -> None:
    three.drop_generation(1)
    again = reopened(three)
    assert payloads(replay(again, "weather/#")) == [b"2", b"3"]
    again.close()


def test_other_layout_options_begin_a_generation(database: LocalDatabase, make_message: MakeMessage) -> None:
    topics = [f"a/{number}" for number in range(5)]
    store_batch(database, [make_message(topic, topic.encode()) for topic in topics])
    assert len(database.get_streams("#")) == 5
    again = reopened(database, DatabaseOptions(layout=ColumnarOptions(wildcard_thresholds=(2, 1))))
    assert numbers(again) == [1, 2]
    store_batch(again, [make_message(topic, topic.encode()) for topic in topics])
    assert [(stream.rank.y, stream.topics) for stream in again.get_streams("#")][5:] == [(2, "a/0"), (2, "a/+")]
    assert sorted(payloads(replay(again, "a/3"))) == [b"a/3"] * 2
    same = reopened(again, DatabaseOptions(layout=ColumnarOptions(wildcard_thresholds=(2, 1))))
    assert numbers(same) == [1, 2]
    same.close()


def test_a_reader_that_waits_is_told_that_its_stream_has_ended(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    grown: list[str] = []
    end = database.subscribe(lambda streams: grown.extend(map(str, streams)))
    store_batch(database, [make_message("a"), make_message("b")])
    assert grown == ["messages/0/1/1", "messages/0/1/2"]
    grown.clear()
    store_batch(database, [make_message("b")])
    assert grown == ["messages/0/1/2"]
    grown.clear()
    database.add_generation()
    assert grown == ["messages/0/1/1", "messages/0/1/2"]
    end()
    store_batch(database, [make_message("b")])
    assert len(grown) == 2


def generation(number: int, since: int, until: int | None) -> GenerationInfo:
    return GenerationInfo(0, number, "columnar", 1, since, until)


TWO = [generation(1, 0, DAY), generation(2, DAY, None)]


@cases(
    ("options", "now", "current_bytes", "due"),
    [
        (RetentionOptions(generation_interval_us=DAY), 2 * DAY, 1, True),
        (RetentionOptions(generation_interval_us=DAY), 2 * DAY - 1, 1, False),
        (RetentionOptions(generation_interval_us=DAY), 2 * DAY, 0, False),
        (RetentionOptions(max_bytes=800), 2 * DAY, 100, True),
        (RetentionOptions(max_bytes=800), 2 * DAY, 99, False),
        (RetentionOptions(), 20 * DAY, 10**12, False),
    ],
)
def test_a_generation_is_closed_when_it_is_old_or_large(
    options: RetentionOptions, now: int, current_bytes: int, due: bool
) -> None:
    usage = Usage(0, current_bytes, not current_bytes, False)
    assert is_rotation_due(TWO, usage, options, now) is due


@cases(
    ("options", "now", "usage", "dropped"),
    [
        (RetentionOptions(retention_us=7 * DAY), 8 * DAY, Usage(0, 0, False, False), 1),
        (RetentionOptions(retention_us=7 * DAY), 8 * DAY - 1, Usage(0, 0, False, False), None),
        (RetentionOptions(max_bytes=800), DAY, Usage(801, 0, False, False), 1),
        (RetentionOptions(max_bytes=800), DAY, Usage(800, 0, False, False), None),
        (RetentionOptions(max_bytes=800), DAY, Usage(801, 0, False, True), None),
        (RetentionOptions(), 100 * DAY, Usage(10**12, 0, False, False), None),
    ],
)
def test_the_oldest_generation_is_dropped_when_it_is_too_old_or_all_too_large(
    options: RetentionOptions, now: int, usage: Usage, dropped: int | None
) -> None:
    assert due_drop(TWO, usage, options, now) == dropped
    assert due_drop(TWO[1:], usage, options, now) is None


def test_old_messages_go_and_young_ones_stay(database: LocalDatabase, make_message: MakeMessage) -> None:
    retention = GenerationRetention(database, RetentionOptions(retention_us=7 * DAY, generation_interval_us=DAY))
    now = time.time_ns() // 1000
    store_batch(database, [make_message(payload=b"old")])
    retention.tick(now)
    assert numbers(database) == [1]
    retention.tick(now + DAY + 10_000_000)
    assert numbers(database) == [1, 2]
    store_batch(database, [make_message(payload=b"young")])
    retention.tick(now + 7 * DAY - 1)
    assert payloads(replay(database)) == [b"old", b"young"]
    retention.tick(now + 7 * DAY + 60_000_000)
    assert payloads(replay(database)) == [b"young"]
    assert retention.statistics() == {"retention_failures": 0}
    database.close()
    retention.tick(now + 50 * DAY)


def test_the_written_bytes_of_a_generation_outlive_a_restart(
    database: LocalDatabase, make_message: MakeMessage
) -> None:
    store_batch(database, [make_message("abc", b"x" * 100), make_message("abd", b"x" * 100)])
    assert database.usage().current_bytes == 206
    again = reopened(database)
    store_batch(again, [make_message("abd", b"x" * 100)])
    assert again.usage().current_bytes == 309
    again.add_generation()
    assert again.usage().current_bytes == 0
    assert again.usage().current_is_empty
    again.close()


def test_what_was_dropped_long_ago_is_still_told_from_what_never_was(
    database: LocalDatabase, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.storage.columnar.generations.DROPPED_REMEMBERED_MAX", 2)
    for _ in range(4):
        store_batch(database, [make_message()])
        database.add_generation()
    (first, *_) = (stream.id for stream in database.get_streams("#"))
    for number in range(1, 5):
        database.drop_generation(number)
    again = reopened(database)
    catalog = again.contents()[1]
    assert catalog.dropped_numbers() == [3, 4]
    for number, lost in ((1, None), (2, None), (3, 1), (4, 1)):
        dropped = catalog.dropped(first._replace(generation=number))
        assert dropped is not None
        assert dropped.lost_rows(1, Position(0, 0, 0)) == lost
    with pytest.raises(DroppedGenerationError):
        again.make_iterator(first, "#")
    for never in (first._replace(generation=9), first._replace(shard=1), first._replace(generation=0)):
        with pytest.raises(UnknownStreamError) as caught:
            again.make_iterator(never, "#")
        assert not isinstance(caught.value, DroppedGenerationError)
    again.close()


def test_space_that_a_crash_kept_from_being_freed_is_freed_at_the_next_start(
    database: LocalDatabase, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_batch(database, [make_message(payload=bytes(range(256)) * 4_000)])
    database.contents()[0].flush()
    database.add_generation()
    with monkeypatch.context() as patched:
        patched.setattr("heliograph.storage.store.Store.free", lambda *_: None)
        database.drop_generation(1)
        again = reopened(database)
    assert list(records(again.contents()[0], b"B", b"C")) == []
    last = reopened(again)
    wait_until_freed(last)
    assert last.usage().table_bytes < 20_000
    last.close()


def test_a_reader_lets_go_of_files_that_were_removed(
    database: LocalDatabase, make_message: MakeMessage, data_dir: Path, tmp_path: Path
) -> None:
    store_batch(database, [make_message(payload=bytes(100_000))])
    database.contents()[0].flush()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    reader = StorageReader(data_dir, scratch)
    assert reader.info(Request(b'{"database": "messages"}'))["messages"] == 1
    database.add_generation()
    database.drop_generation(1)
    wait_until_freed(database)
    assert removed_and_held(database.path)
    reader.let_go()
    assert removed_and_held(database.path) == []


def removed_and_held(path: Path) -> list[str]:
    """Tables of a database that have no name any more but are open in this process."""
    held = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            held.append(str(descriptor.readlink()))
    return [name for name in held if name.startswith(str(path)) and name.endswith(".sst (deleted)")]


def test_what_cannot_be_removed_is_said_once(database: LocalDatabase, caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        is_open = True
        usage = database.usage
        list_generations = database.list_generations
        drop_generation = database.drop_generation

        def add_generation(self) -> None:
            raise StorageFullError("No space left on device", database="messages")

    store_batch(database, [StoredMessage(1, 1, "a", b"", 1, False, "c", None, b"", 0)])
    retention = GenerationRetention(Failing(), RetentionOptions(generation_interval_us=DAY))
    for _ in range(3):
        retention.enforce(time.time_ns() // 1000 + 2 * DAY)
    assert retention.statistics() == {"retention_failures": 3}
    assert caplog.text.count("cannot be removed now [storage_full]: No space left on device") == 1
