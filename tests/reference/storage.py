"""The conformance kit of storage: what every backend and layout must do, as tests that it inherits.

In a test module, say how the backend is made, and pytest finds the rest:

    class TestMyBackend(StorageConformance):
        def make_backend(self, data_dir: Path) -> Backend:
            return MyBackend(data_dir)

`replayed` reads as a consumer that keeps the replay rules; `reference.backend` is what to compare with.
"""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from heliograph.storage.errors import (
    DroppedGenerationError,
    InvalidFilterError,
    PreconditionFailedError,
    StorageClosedError,
    StorageError,
    UnknownDatabaseError,
    UnknownGenerationError,
    UnknownStreamError,
)
from heliograph.storage.interface import (
    END_OF_STREAM,
    Backend,
    Batch,
    Database,
    DatabaseOptions,
    Deleted,
    DeletingDatabase,
    Precondition,
    StoredMessage,
    StreamId,
    StreamIterator,
)

_MESSAGES: Final = "messages"
_numbers = count(1)


def message(topic: str = "a/b", payload: bytes = b"", clientid: str = "c1") -> StoredMessage:
    """A message with an id of its own."""
    number = next(_numbers)
    return StoredMessage(1_700_000_000_000_000 + number, number, topic, payload, 1, False, clientid, None, b"", 0)


def replayed(database: Database, topic_filter: str = "#", start: int | None = None, n: int = 3) -> list[StoredMessage]:
    """Everything of a filter, stream by stream in the order of their ranks, by iterators that were saved between reads.

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
            iterator = StreamIterator.from_bytes(batch.iterator.to_bytes())
        assert (batch is END_OF_STREAM) == stream.sealed
    return found


class StorageConformance:
    """The tests. A subclass makes the backend, and says whether its databases delete single messages."""

    deletes = False

    def make_backend(self, data_dir: Path) -> Backend:
        """A backend without databases, which keeps what it has to keep in an empty directory."""
        raise NotImplementedError(type(self).__name__)

    def _open(self, data_dir: Path) -> Database:
        return self.make_backend(data_dir).open_db(_MESSAGES, DatabaseOptions())

    def test_a_message_comes_back_as_it_was_stored(self, tmp_path: Path) -> None:
        """Every field, whatever is in it; only the time of the commit is added."""
        database = self._open(tmp_path)
        odd = message("ö/ü", b"\0\xff", "ç")._replace(qos=2, retain=True, username="u", property_bytes=b"\x01\x01")
        plain = message("plain")
        database.store_batch([odd, plain])
        found = {one.id_low: one for one in replayed(database)}
        assert [found[one.id_low]._replace(stored_at=0) for one in (odd, plain)] == [odd, plain]
        assert all(one.stored_at > 0 for one in found.values())
        database.close()

    def test_a_filter_finds_its_topics_and_no_other(self, tmp_path: Path) -> None:
        """Wildcards, parents of `#`, empty levels, and topics that begin with `$`."""
        database = self._open(tmp_path)
        topics = ["a", "a/", "a/b", "a/b/c", "b", "/", "$x", "$x/y", *(f"device/{n}/up" for n in range(150))]
        database.store_batch([message(topic) for topic in topics])
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
        database = self._open(tmp_path)
        for part in range(6):
            database.store_batch([message(f"t/{n % 3}", b"%d" % (part * 30 + n), f"c{n % 2}") for n in range(30)])
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
        database = self._open(tmp_path)
        database.store_batch([message(payload=b"1")])
        (stream,) = database.get_streams("a/b")
        first = _batch(database, database.make_iterator(stream.id, "a/b"))
        waiting = _batch(database, first.iterator)
        assert (_payloads(first), _payloads(waiting)) == ([b"1"], [])
        database.store_batch([message(payload=b"2")])
        second = _batch(database, waiting.iterator)
        assert _payloads(second) == [b"2"]
        database.add_generation()
        assert database.next(second.iterator, 9) is END_OF_STREAM
        assert _payloads(_batch(database, first.iterator)) == [b"2"]
        database.close()

    def test_generations_follow_one_another(self, tmp_path: Path) -> None:
        """Streams of later ones have a greater y; times say which of them a read can leave out."""
        database = self._open(tmp_path)
        for payload in (b"1", b"2", b"3"):
            database.store_batch([message(payload=payload)])
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
        database = self._open(tmp_path)
        for payload in (b"1", b"2", b"3", b"4"):
            database.store_batch([message(payload=payload), message(payload=payload)])
        times = sorted({one.stored_at for one in replayed(database)})
        assert len(times) == 4
        assert [one.payload for one in replayed(database, start=times[2])] == [b"3", b"3", b"4", b"4"]
        assert [one.payload for one in replayed(database, start=times[2] + 1)] == [b"4", b"4"]
        assert replayed(database, start=times[3] + 1) == []
        database.close()

    def test_everything_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        """Messages, generations, and iterators that were saved before."""
        backend = self.make_backend(tmp_path)
        database = backend.open_db(_MESSAGES, DatabaseOptions())
        database.store_batch([message(payload=b"%d" % number) for number in range(10)])
        (stream,) = database.get_streams("#")
        saved = _batch(database, database.make_iterator(stream.id, "#"), 4).iterator.to_bytes()
        database.add_generation()
        database.store_batch([message(payload=b"10")])
        before, infos = replayed(database), database.list_generations()
        database.close()
        again = backend.open_db(_MESSAGES, DatabaseOptions())
        assert (replayed(again), list(again.list_generations())) == (before, list(infos))
        rest = _batch(again, StreamIterator.from_bytes(saved), 100)
        assert _payloads(rest) == [b"%d" % number for number in range(4, 10)]
        again.store_batch([message(payload=b"11")])
        assert [one.payload for one in replayed(again)][-2:] == [b"10", b"11"]
        again.close()

    def test_a_dropped_generation_is_gone_and_said_to_be(self, tmp_path: Path) -> None:
        """The others stay; the current one cannot be dropped."""
        backend = self.make_backend(tmp_path)
        database = backend.open_db(_MESSAGES, DatabaseOptions())
        database.store_batch([message(payload=b"1")])
        (stream,) = database.get_streams("#")
        iterator = database.make_iterator(stream.id, "#")
        database.add_generation()
        database.store_batch([message(payload=b"2")])
        for number in (2, 3):
            raises(UnknownGenerationError, database.drop_generation, number)
        database.drop_generation(1)
        raises(UnknownGenerationError, database.drop_generation, 1)
        assert [one.payload for one in replayed(database)] == [b"2"]
        raises(DroppedGenerationError, database.next, iterator, 1)
        database.close()
        again = backend.open_db(_MESSAGES, DatabaseOptions())
        assert [info.number for info in again.list_generations()] == [2]
        raises(DroppedGenerationError, again.next, iterator, 1)
        again.close()

    def test_a_batch_is_stored_when_what_it_expects_is_so(self, tmp_path: Path) -> None:
        """And nothing of it when not."""
        self.check_preconditions(tmp_path, stored=4)

    def check_preconditions(self, tmp_path: Path, stored: int) -> None:
        """What that test says.

        Args:
            stored: How many messages are left of four that were stored on one topic.
        """
        database = self._open(tmp_path)
        none, some = Precondition(False, "lease"), Precondition(True, "lease")
        raises(PreconditionFailedError, database.store_batch, [message("x")], preconditions=[some])
        first = message("lease", b"n1", "n1")
        database.store_batch([first], atomic=True, preconditions=[none])
        raises(PreconditionFailedError, database.store_batch, [message("lease", b"n2", "n2")], preconditions=[none])
        for precondition, holds in (
            (some, True),
            (Precondition(True, "lease", payload=b"n1"), True),
            (Precondition(True, "lease", payload=b"n2"), False),
            (Precondition(True, "lease", clientid="n1", guid=first.guid), True),
            (Precondition(True, "lease", clientid="n2"), False),
            (Precondition(False, "lease", clientid="n2"), True),
            (Precondition(True, "other"), False),
        ):
            if holds:
                database.store_batch([message("y")], preconditions=[none_of("z"), precondition])
            else:
                raises(PreconditionFailedError, database.store_batch, [message("x")], preconditions=[precondition])
        assert replayed(database, "x") == []
        assert len(replayed(database, "y")) == stored
        database.close()

    def test_a_reader_is_told_of_streams_that_grow(self, tmp_path: Path) -> None:
        """New ones, ones that grow, and ones that were closed; what it is told of can be read."""
        self.check_subscription(tmp_path)
        database = self.make_backend(tmp_path / "closed").open_db(_MESSAGES, DatabaseOptions())
        told: list[StreamId] = []
        database.subscribe(told.extend)
        database.store_batch([message()])
        told.clear()
        database.add_generation()
        assert {stream.id for stream in database.get_streams("#")} == set(told)
        database.close()

    def check_subscription(self, tmp_path: Path) -> None:
        """What that test says of streams that grow."""
        database = self._open(tmp_path)
        told: list[StreamId] = []
        end = database.subscribe(told.extend)
        for topic in ("a", "a", "b"):
            told.clear()
            database.store_batch([message(topic)])
            assert told
            for stream in told:
                assert isinstance(database.next(database.make_iterator(stream, topic), 1), Batch)
        assert {stream.id for stream in database.get_streams("b")} <= set(told)
        told.clear()
        end()
        database.store_batch([message()])
        assert told == []
        database.close()

    def test_streams_take_turns_in_a_poll(self, tmp_path: Path) -> None:
        """One result for each iterator, and no more messages than asked for."""
        database = self._open(tmp_path)
        for number in range(2):
            database.store_batch([message(payload=b"%d%d" % (number, n)) for n in range(10)])
            database.add_generation()
        iterators = [database.make_iterator(stream.id, "#") for stream in database.get_streams("#")]
        results = database.poll(iterators, 8)
        batches = [result for result in results if isinstance(result, Batch)]
        assert [len(batch.messages) for batch in batches] == [4, 4]
        behind = database.update_iterator(batches[1].iterator, batches[1].positions[1])
        assert _payloads(_batch(database, behind, 1)) == [b"12"]
        assert len(database.poll(iterators, 1)) == 2
        database.close()

    def test_what_is_not_there_is_said(self, tmp_path: Path) -> None:
        """Streams, filters, databases, and a database that was closed."""
        backend = self.make_backend(tmp_path)
        database = backend.open_db(_MESSAGES, DatabaseOptions())
        raises(UnknownStreamError, database.make_iterator, StreamId(_MESSAGES, 0, 1, 77), "#")
        raises(UnknownStreamError, database.make_iterator, StreamId("other", 0, 1, 1), "#")
        raises(InvalidFilterError, database.get_streams, "a/#/b")
        database.close()
        raises(StorageClosedError, database.store_batch, [message()])
        raises(StorageClosedError, database.get_streams, "#")
        raises(UnknownDatabaseError, backend.drop_db, "other")

    def test_databases_know_nothing_of_one_another(self, tmp_path: Path) -> None:
        """They are made, listed and dropped one by one."""
        backend = self.make_backend(tmp_path)
        assert list(backend.list_dbs()) == []
        for name in ("b", "a"):
            database = backend.open_db(name, DatabaseOptions())
            database.store_batch([message(payload=name.encode())])
            database.close()
        assert list(backend.list_dbs()) == ["a", "b"]
        backend.drop_db("b")
        assert list(backend.list_dbs()) == ["a"]
        for name, payloads in (("a", [b"a"]), ("b", [])):
            database = backend.open_db(name, DatabaseOptions())
            assert [one.payload for one in replayed(database)] == payloads
            database.close()

    def test_single_messages_can_be_deleted(self, tmp_path: Path) -> None:
        """Those of a filter, from a time on, some at once; for databases that delete."""
        if not self.deletes:
            return
        database = self._open(tmp_path)
        assert isinstance(database, DeletingDatabase)
        for number in range(9):
            database.store_batch([message("a", b"%d" % number), message("b", b"%d" % number)])
        start = replayed(database)[6].stored_at
        counts = []
        for stream in database.get_delete_streams("a", start):
            iterator = database.make_iterator(stream, "a", start)
            while isinstance(deleted := database.delete_next(iterator, 4), Deleted):
                counts.append(deleted.count)
                iterator = deleted.iterator
        assert counts == [4, 2]
        assert [one.payload for one in replayed(database, "a")] == [b"0", b"1", b"2"]
        assert len(replayed(database, "b")) == 9
        database.close()


def none_of(topic: str) -> Precondition:
    """That nothing is stored on a topic."""
    return Precondition(False, topic)


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
