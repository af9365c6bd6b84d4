"""The conformance kit of databases of messages: what each must do, as tests that it inherits.

In a test module, say how a database is opened, and pytest finds the rest:

    class TestMine(StorageConformance):
        def open(self, data_dir: Path, name: str = "messages") -> Database:
            return MyDatabase(data_dir / name)

`replayed` reads as a consumer that keeps the replay rules; `reference.databases` is what to compare with.
"""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Protocol

from heliograph.storage.errors import (
    DroppedGenerationError,
    InvalidFilterError,
    StorageClosedError,
    StorageError,
    UnknownGenerationError,
    UnknownStreamError,
)
from heliograph.storage.interface import (
    END_OF_STREAM,
    Batch,
    EndOfStream,
    GenerationInfo,
    Grouped,
    OnGrown,
    StorableMessage,
    StoredMessage,
    Stream,
    StreamId,
    StreamIterator,
)
from support.databases import store_batch

_MESSAGES = "messages"
_numbers = count(1)


class ReadDatabase(Protocol):
    """What a consumer needs of a database."""

    def get_streams(self, topic_filter: str, start: int | None = None, end: int | None = None) -> Sequence[Stream]:
        """The streams that can hold messages of the filter stored in [start, end), times in µs, None for open."""

    def make_iterator(self, stream: StreamId, topic_filter: str, start: int | None = None) -> StreamIterator:
        """An iterator before the first message of the filter stored at `start` or later."""

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
        """Read up to `n` messages that follow the iterator."""


class Database(ReadDatabase, Grouped[StorableMessage], Protocol):
    """What the kit needs of a database."""

    def add_generation(self) -> None:
        """Close the current generation of every shard and begin the next."""

    def list_generations(self) -> Sequence[GenerationInfo]:
        """All generations, by shard and number."""

    def drop_generation(self, number: int) -> None:
        """Remove a closed generation of all shards. What is read of it afterwards is a `DroppedGenerationError`."""

    def subscribe(self, on_grown: OnGrown) -> Callable[[], None]:
        """Have a function called with the streams that a commit added to, or that were closed; returns how to end."""

    def close(self) -> None:
        """Leave everything where it is; the database cannot be used any more."""


def message(topic: str = "a/b", payload: bytes = b"", clientid: str = "c1") -> StoredMessage:
    """A message with an id of its own."""
    number = next(_numbers)
    return StoredMessage(1_700_000_000_000_000 + number, number, topic, payload, 1, False, clientid, None, b"", 0)


def replayed(
    database: ReadDatabase, topic_filter: str = "#", start: int | None = None, n: int = 3
) -> list[StoredMessage]:
    """Everything of a filter, stream by stream in the order of their ranks.

    Args:
        database: What to read.
        topic_filter: What of it.
        start: From which commit time on, in µs.
        n: How many messages to read at once.
    """
    found: list[StoredMessage] = []
    for stream in sorted(database.get_streams(topic_filter, start), key=lambda stream: stream.rank):
        iterator = database.make_iterator(stream.id, topic_filter, start)
        while isinstance(batch := database.next(iterator, n), Batch) and batch.messages:
            assert len(batch.messages) == len(batch.positions) <= n
            found.extend(batch.messages)
            iterator = batch.iterator
        assert (batch is END_OF_STREAM) == stream.sealed
    return found


class StorageConformance:
    """The tests. A subclass opens databases."""

    def open(self, data_dir: Path, name: str = _MESSAGES) -> Database:
        """An open database in a directory, with what was stored in it before."""
        raise NotImplementedError(type(self).__name__)

    def test_a_message_comes_back_as_it_was_stored(self, tmp_path: Path) -> None:
        """Every field, whatever is in it; only the time of the commit is added."""
        database = self.open(tmp_path)
        odd = message("ö/ü", b"\0\xff", "ç")._replace(qos=2, retain=True, username="u", property_bytes=b"\x01\x01")
        plain = message("plain")
        store_batch(database, [odd, plain])
        found = {one.id_low: one for one in replayed(database)}
        assert [found[one.id_low]._replace(stored_at=0) for one in (odd, plain)] == [odd, plain]
        assert all(one.stored_at > 0 for one in found.values())
        database.close()

    def test_a_filter_finds_its_topics_and_no_other(self, tmp_path: Path) -> None:
        """Wildcards, parents of `#`, empty levels, and topics that begin with `$`."""
        database = self.open(tmp_path)
        topics = ["a", "a/", "a/b", "a/b/c", "b", "/", "$x", "$x/y", *(f"device/{n}/up" for n in range(150))]
        store_batch(database, [message(topic) for topic in topics])
        for topic_filter, wanted in (
            ("#", {topic for topic in topics if topic[0] != "$"}),
            ("a/#", {"a", "a/", "a/b", "a/b/c"}),
            ("a/+", {"a/", "a/b"}),
            ("+/+", {"a/", "a/b", "/"}),
            ("$x/#", {"$x", "$x/y"}),
            ("device/149/up", {"device/149/up"}),
            ("device/+/up", set(topics[8:])),
            ("nothing", set()),
        ):
            assert {one.topic for one in replayed(database, topic_filter)} == wanted, topic_filter
        database.close()

    def test_order_holds_for_each_client_and_topic(self, tmp_path: Path) -> None:
        """Also over commits and generations."""
        database = self.open(tmp_path)
        for part in range(6):
            store_batch(database, [message(f"t/{n % 3}", b"%d" % (part * 30 + n), f"c{n % 2}") for n in range(30)])
            if part % 2:
                database.add_generation()
        found = replayed(database, n=7)
        for client in ("c0", "c1"):
            for topic in ("t/0", "t/1", "t/2"):
                places = [int(one.payload) for one in found if (one.clientid, one.topic) == (client, topic)]
                assert places == sorted(places)
                assert len(places) == 30
        database.close()

    def test_nothing_yet_is_not_the_end_of_the_stream(self, tmp_path: Path) -> None:
        """An empty batch may be followed by messages; after the end nothing comes."""
        database = self.open(tmp_path)
        store_batch(database, [message(payload=b"1")])
        (stream,) = database.get_streams("a/b")
        first = _batch(database, database.make_iterator(stream.id, "a/b"))
        waiting = _batch(database, first.iterator)
        assert (_payloads(first), _payloads(waiting)) == ([b"1"], [])
        store_batch(database, [message(payload=b"2")])
        second = _batch(database, waiting.iterator)
        assert _payloads(second) == [b"2"]
        database.add_generation()
        assert database.next(second.iterator, 9) is END_OF_STREAM
        assert _payloads(_batch(database, first.iterator)) == [b"2"]
        database.close()

    def test_generations_follow_one_another(self, tmp_path: Path) -> None:
        """Streams of later ones have a greater y; times say which of them a read can leave out."""
        database = self.open(tmp_path)
        for payload in (b"1", b"2", b"3"):
            store_batch(database, [message(payload=payload)])
            database.add_generation()
        infos = database.list_generations()
        assert [info.number for info in infos] == [1, 2, 3, 4]
        assert [info.until for info in infos] == [*(info.since for info in infos[1:]), None]
        streams = database.get_streams("a/b")
        assert [(stream.rank.y, stream.sealed) for stream in streams] == [(1, True), (2, True), (3, True)]
        middle = infos[1]
        assert database.get_streams("a/b", middle.since, middle.until) == [streams[1]]
        assert [one.payload for one in replayed(database)] == [b"1", b"2", b"3"]
        database.close()

    def test_a_replay_can_begin_at_a_time(self, tmp_path: Path) -> None:
        """At the time of a commit, all of it is read; commit times rise."""
        database = self.open(tmp_path)
        for payload in (b"1", b"2", b"3", b"4"):
            store_batch(database, [message(payload=payload), message(payload=payload)])
        times = sorted({one.stored_at for one in replayed(database)})
        assert len(times) == 4
        assert [one.payload for one in replayed(database, start=times[2])] == [b"3", b"3", b"4", b"4"]
        assert [one.payload for one in replayed(database, start=times[2] + 1)] == [b"4", b"4"]
        assert replayed(database, start=times[3] + 1) == []
        database.close()

    def test_everything_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        """Messages, generations, and iterators that were saved before."""
        database = self.open(tmp_path)
        store_batch(database, [message(payload=b"%d" % number) for number in range(10)])
        (stream,) = database.get_streams("#")
        saved = _batch(database, database.make_iterator(stream.id, "#"), 4).iterator
        database.add_generation()
        store_batch(database, [message(payload=b"10")])
        before, infos = replayed(database), database.list_generations()
        database.close()
        again = self.open(tmp_path)
        assert (replayed(again), list(again.list_generations())) == (before, list(infos))
        rest = _batch(again, saved, 100)
        assert _payloads(rest) == [b"%d" % number for number in range(4, 10)]
        store_batch(again, [message(payload=b"11")])
        assert [one.payload for one in replayed(again)][-2:] == [b"10", b"11"]
        again.close()

    def test_a_dropped_generation_is_gone_and_said_to_be(self, tmp_path: Path) -> None:
        """The others stay; the current one cannot be dropped."""
        database = self.open(tmp_path)
        store_batch(database, [message(payload=b"1")])
        (stream,) = database.get_streams("#")
        iterator = database.make_iterator(stream.id, "#")
        database.add_generation()
        store_batch(database, [message(payload=b"2")])
        for number in (2, 3):
            raises(UnknownGenerationError, database.drop_generation, number)
        database.drop_generation(1)
        raises(UnknownGenerationError, database.drop_generation, 1)
        assert [one.payload for one in replayed(database)] == [b"2"]
        raises(DroppedGenerationError, database.next, iterator, 1)
        database.close()
        again = self.open(tmp_path)
        assert [info.number for info in again.list_generations()] == [2]
        raises(DroppedGenerationError, again.next, iterator, 1)
        again.close()

    def test_a_reader_is_told_of_streams_that_grow(self, tmp_path: Path) -> None:
        """New ones, ones that grow, and ones that were closed; what it is told of can be read."""
        database = self.open(tmp_path)
        told: list[StreamId] = []
        end = database.subscribe(told.extend)
        for topic in ("a", "a", "b"):
            told.clear()
            store_batch(database, [message(topic)])
            assert told
            for stream in told:
                assert isinstance(database.next(database.make_iterator(stream, topic), 1), Batch)
        told.clear()
        database.add_generation()
        assert {stream.id for stream in database.get_streams("#")} == set(told)
        told.clear()
        end()
        store_batch(database, [message()])
        assert told == []
        database.close()

    def test_reading_goes_on_behind_any_message(self, tmp_path: Path) -> None:
        """Every message has a position, from which an iterator can be made."""
        database = self.open(tmp_path)
        for part in range(2):
            store_batch(database, [message(payload=b"%d%d" % (part, n)) for n in range(5)])
        (stream,) = database.get_streams("#")
        batch = _batch(database, database.make_iterator(stream.id, "#"), 100)
        for number, position in enumerate(batch.positions):
            behind = _batch(database, StreamIterator(stream.id, "#", position), 100)
            assert _payloads(behind) == _payloads(batch)[number + 1 :]
        database.close()

    def test_databases_know_nothing_of_one_another(self, tmp_path: Path) -> None:
        """Each has what was stored in it."""
        databases = {name: self.open(tmp_path, name) for name in ("a", "b")}
        for name, database in databases.items():
            store_batch(database, [message(payload=name.encode())])
        for name, database in databases.items():
            assert [one.payload for one in replayed(database)] == [name.encode()]
            database.close()

    def test_what_is_not_there_is_said(self, tmp_path: Path) -> None:
        """Streams, filters, databases, and a database that was closed."""
        database = self.open(tmp_path)
        raises(UnknownStreamError, database.make_iterator, StreamId(_MESSAGES, 0, 1, 77), "#")
        raises(UnknownStreamError, database.make_iterator, StreamId("other", 0, 1, 1), "#")
        raises(InvalidFilterError, database.get_streams, "a/#/b")
        database.close()
        raises(StorageClosedError, database.write, [message()])
        raises(StorageClosedError, database.get_streams, "#")


def _batch(database: Database, iterator: StreamIterator, n: int = 9) -> Batch:
    batch = database.next(iterator, n)
    assert isinstance(batch, Batch)
    return batch


def _payloads(batch: Batch) -> list[bytes]:
    return [one.payload for one in batch.messages]


def raises(kind: type[StorageError], call: Callable[..., object], *values: object, **names: Sequence[object]) -> None:
    """That a call fails so."""
    try:
        call(*values, **names)
    except kind:
        return
    raise AssertionError(f"{call} with {values} did not raise {kind.__name__}")
