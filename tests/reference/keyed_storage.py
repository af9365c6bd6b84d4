"""The conformance kit for layouts that keep only the newest message of each topic, in one generation.

Used as `reference.storage` is, whose tests it inherits where they are about such layouts too:

    class TestMyBackend(KeyedConformance):
        def make_backend(self, data_dir: Path) -> Backend:
            return MyBackend(data_dir)

Such a database is read in the order of topics. Its iterators promise this: a topic that does not change is read once,
one that changes is read at most once as it was or is, and what is stored behind the iterator is not read by it.
"""

from pathlib import Path

from heliograph.storage.errors import OneGenerationError, UnknownGenerationError
from heliograph.storage.interface import Batch, DatabaseOptions, Deleted, DeletingDatabase, StreamIterator
from reference.storage import StorageConformance, message, raises, replayed


class KeyedConformance(StorageConformance):
    """The tests. A subclass makes the backend."""

    deletes = True

    def test_order_holds_for_each_client_and_topic(self, tmp_path: Path) -> None:
        """The newest message of a topic is the one, whoever sent it, and of one batch the last."""
        database = self._open(tmp_path)
        for part in range(6):
            database.store_batch([message(f"t/{n % 3}", b"%d" % (part * 30 + n), f"c{n % 2}") for n in range(30)])
        found = {one.topic: int(one.payload) for one in replayed(database, n=2)}
        assert found == {"t/0": 177, "t/1": 178, "t/2": 179}
        assert len(replayed(database)) == 3
        database.close()

    def test_nothing_yet_is_not_the_end_of_the_stream(self, tmp_path: Path) -> None:
        """Nothing may be left for now, but a topic may come that is behind all others; no stream ever ends."""
        database = self._open(tmp_path)
        topics = [f"d/{number:03d}" for number in range(40)]
        database.store_batch([message(topic) for topic in topics])
        streams = database.get_streams("d/+")
        assert not any(stream.sealed for stream in streams)
        waiting = [database.make_iterator(stream.id, "d/+") for stream in streams]
        found = []
        for place, iterator in enumerate(waiting):
            while isinstance(batch := database.next(iterator, 7), Batch) and batch.messages:
                found += [one.topic for one in batch.messages]
                iterator = StreamIterator.from_bytes(batch.iterator.to_bytes())
            waiting[place] = iterator
        assert sorted(found) == topics
        database.store_batch([message("d/999", b"late")])
        late = [database.next(iterator, 7) for iterator in waiting]
        assert [one.payload for batch in late if isinstance(batch, Batch) for one in batch.messages] == [b"late"]
        database.close()

    def test_generations_follow_one_another(self, tmp_path: Path) -> None:
        """They do not: there is one."""
        database = self._open(tmp_path)
        raises(OneGenerationError, database.add_generation)
        raises(UnknownGenerationError, database.drop_generation, 1)
        (info,) = database.list_generations()
        assert (info.number, info.until) == (1, None)
        database.store_batch([message()])
        assert database.get_streams("#", end=info.since) == []
        assert len(database.get_streams("#", start=info.since)) == 1
        database.close()

    def test_a_dropped_generation_is_gone_and_said_to_be(self, tmp_path: Path) -> None:
        """There is none that could be dropped."""

    def test_a_replay_can_begin_at_a_time(self, tmp_path: Path) -> None:
        """Topics that were stored then or later are read; times rise."""
        database = self._open(tmp_path)
        for number in (1, 2, 3, 4, 2):
            database.store_batch([message(f"t/{number}"), message(f"u/{number}")])
        times = {one.topic: one.stored_at for one in replayed(database, "t/+")}
        assert sorted(times, key=lambda topic: times[topic]) == ["t/1", "t/3", "t/4", "t/2"]
        assert {one.topic for one in replayed(database, "t/+", times["t/4"], 1)} == {"t/4", "t/2"}
        assert {one.topic for one in replayed(database, "+/2", times["t/4"] + 1)} == {"t/2", "u/2"}
        assert replayed(database, start=times["t/2"] + 1) == []
        database.close()

    def test_everything_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        """Messages, streams, and iterators that were saved before."""
        backend = self.make_backend(tmp_path)
        database = backend.open_db("messages", DatabaseOptions())
        database.store_batch([message(f"d/{number:03d}", b"%d" % number) for number in range(50)])
        iterator = max(
            (database.make_iterator(stream.id, "d/#") for stream in database.get_streams("d/#")),
            key=lambda iterator: len(_topics(database.next(iterator, 99))),
        )
        first = database.next(iterator, 4)
        assert isinstance(first, Batch)
        rest = _topics(database.next(first.iterator, 99))
        before, streams = replayed(database), list(database.get_streams("#"))
        database.close()
        again = backend.open_db("messages", DatabaseOptions())
        assert (replayed(again), list(again.get_streams("#"))) == (before, streams)
        assert _topics(again.next(StreamIterator.from_bytes(first.iterator.to_bytes()), 99)) == rest
        again.store_batch([message("d/007", b"new")])
        assert [one.payload for one in replayed(again, "d/007")] == [b"new"]
        assert len(replayed(again)) == 50
        again.close()

    def test_a_batch_is_stored_when_what_it_expects_is_so(self, tmp_path: Path) -> None:
        """And nothing of it when not; what is said is said of the newest message."""
        self.check_preconditions(tmp_path, stored=1)

    def test_a_reader_is_told_of_streams_that_grow(self, tmp_path: Path) -> None:
        """New ones and ones that grow; what it is told of can be read."""
        self.check_subscription(tmp_path)

    def test_streams_take_turns_in_a_poll(self, tmp_path: Path) -> None:
        """One result for each iterator, and no more messages than asked for."""
        database = self._open(tmp_path)
        database.store_batch([message(f"{word}/{number:03d}") for word in ("a", "b") for number in range(60)])
        iterators = [database.make_iterator(stream.id, "#") for stream in database.get_streams("#")]
        long = 2 * [one for one in iterators if len(_topics(database.next(one, 99))) > 8]
        batches = [result for result in database.poll(long[:2], 8) if isinstance(result, Batch)]
        assert [len(batch.messages) for batch in batches] == [4, 4]
        behind = database.update_iterator(batches[1].iterator, batches[1].positions[1])
        assert _topics(database.next(behind, 2)) == [one.topic for one in batches[1].messages[2:]]
        assert len(database.poll(iterators, 1)) == len(iterators)
        database.close()

    def test_single_messages_can_be_deleted(self, tmp_path: Path) -> None:
        """Those of a filter, from a time on, some at once; what is deleted is gone after a restart too."""
        backend = self.make_backend(tmp_path)
        database = backend.open_db("messages", DatabaseOptions())
        assert isinstance(database, DeletingDatabase)
        for number in range(40):
            database.store_batch([message(f"a/{number:02d}"), message(f"b/{number:02d}")])
        start = next(one.stored_at for one in replayed(database, "a/06"))
        count = 0
        for stream in database.get_delete_streams("a/+", start):
            iterator = database.make_iterator(stream, "a/+", start)
            while isinstance(deleted := database.delete_next(iterator, 4), Deleted):
                assert 0 < deleted.count <= 4
                count += deleted.count
                iterator = deleted.iterator
        assert count == 34
        database.close()
        again = backend.open_db("messages", DatabaseOptions())
        assert sorted(one.topic for one in replayed(again, "a/#")) == [f"a/0{number}" for number in range(6)]
        assert len(replayed(again, "b/#")) == 40
        again.close()


def _topics(result: object) -> list[str]:
    assert isinstance(result, Batch)
    return [one.topic for one in result.messages]
