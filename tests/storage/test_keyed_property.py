"""A keyed database reads as the reference does, and its table as a dictionary, whatever happens in between."""

import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heliograph.storage.errors import PreconditionFailedError, StorageError
from heliograph.storage.interface import (
    Batch,
    DatabaseOptions,
    Deleted,
    KeyedOptions,
    Precondition,
    StoredMessage,
    StreamIterator,
)
from heliograph.storage.keyed.backend import KeyedBackend
from heliograph.storage.keyed.changes import Change
from heliograph.storage.keyed.database import KeyedDatabase
from heliograph.storage.keyed.records import due_key, stored_message, times, topic_of
from heliograph.storage.keyed.table import KeyedTable
from heliograph.storage.keyed.walk import KeyedWalk
from reference.backend import ReferenceBackend, ReferenceDatabase
from reference.storage import replayed
from storage.topics import filters_over, topics_over
from support.naive import matches

LEVELS = st.sampled_from(["", "a", "b", "c", "d", "$x", "a!", "é"])
TOPICS = topics_over(LEVELS)
FILTERS = filters_over(LEVELS)
# Few names are learned, or nearly none: then most topics share the stream of all that there is no room for.
LAYOUTS = st.sampled_from([KeyedOptions((2, 1)), KeyedOptions((8,)), KeyedOptions((1,)), KeyedOptions((3, 2), 3)])
_SETTINGS = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def message(number: int, topic: str, clientid: str = "c") -> StoredMessage:
    return StoredMessage(number, number, topic, b"%d" % number, number % 3, number % 2 == 0, clientid, None, b"", 0)


class Databases(RuleBasedStateMachine):
    """The database beside the reference; commits have the same times in both."""

    def __init__(self) -> None:
        super().__init__()
        self.data_dir = Path(tempfile.mkdtemp())
        self.layout: KeyedOptions | None = None
        self.times = count(1_700_000_000_000_000)
        self.now = 0
        self.numbers = count(1)
        self.keyed = self.open(KeyedOptions())
        self.reference_backend = ReferenceBackend(lambda: self.now, newest_only=True)
        self.reference = self.open_reference()

    def open(self, layout: KeyedOptions) -> KeyedDatabase:
        return KeyedBackend(self.data_dir, layout, self.next_time).open_db("d", DatabaseOptions())

    def open_reference(self) -> ReferenceDatabase:
        return self.reference_backend.open_db("d", DatabaseOptions())

    def next_time(self) -> int:
        self.now = next(self.times)
        return self.now

    @precondition(lambda self: self.layout is None)
    @rule(layout=LAYOUTS)
    def begin(self, layout: KeyedOptions) -> None:
        self.layout = layout
        self.keyed.close()
        shutil.rmtree(self.data_dir)
        self.keyed = self.open(layout)

    @precondition(lambda self: self.layout is not None)
    @rule(batch=st.lists(TOPICS, min_size=1, max_size=8), condition=st.none() | st.tuples(TOPICS, st.booleans()))
    def store(self, batch: list[str], condition: tuple[str, bool] | None) -> None:
        messages = [message(next(self.numbers), topic) for topic in batch]
        expected = [] if condition is None else [Precondition(condition[1], condition[0], "c")]
        try:
            self.keyed.store_batch(messages, preconditions=expected)
        except PreconditionFailedError:
            with pytest.raises(PreconditionFailedError):
                self.reference.store_batch(messages, preconditions=expected)
        else:
            self.reference.store_batch(messages, preconditions=expected)

    @precondition(lambda self: self.layout is not None)
    @rule(topic_filter=FILTERS, part=st.floats(0, 1), n=st.integers(1, 5))
    def delete(self, topic_filter: str, part: float, n: int) -> None:
        start = self.time_at(part)
        assert delete(self.keyed, topic_filter, start, n) == delete(self.reference, topic_filter, start, n)

    @precondition(lambda self: self.layout is not None)
    @rule()
    def restart(self) -> None:
        assert self.layout is not None
        self.keyed.close()
        self.keyed = self.open(self.layout)

    @precondition(lambda self: self.layout is not None)
    @rule(topic_filter=FILTERS, part=st.none() | st.floats(0, 1), n=st.integers(1, 9))
    def replay(self, topic_filter: str, part: float | None, n: int) -> None:
        start = None if part is None else self.time_at(part)
        found = replayed(self.keyed, topic_filter, start, n)
        assert len(found) == len({one.topic for one in found})
        assert set(found) == set(replayed(self.reference, topic_filter, start, n))

    @invariant()
    def is_counted(self) -> None:
        everything = len(replayed(self.reference)) + len(replayed(self.reference, "$x/#"))
        assert len(self.keyed.table) == everything
        assert (self.keyed.table.size_bytes > 0) == (everything > 0)

    def time_at(self, part: float) -> int:
        stored = sorted(one.stored_at for one in replayed(self.reference))
        return stored[int(part * (len(stored) - 1))] if stored else 1

    def teardown(self) -> None:
        self.keyed.close()
        shutil.rmtree(self.data_dir)


def delete(database: KeyedDatabase | ReferenceDatabase, topic_filter: str, start: int, n: int) -> int:
    """Delete all that a filter matches; how many it was."""
    deleted_count = 0
    for stream in database.get_delete_streams(topic_filter, start):
        iterator = database.make_iterator(stream, topic_filter, start)
        while isinstance(deleted := database.delete_next(iterator, n), Deleted):
            deleted_count += deleted.count
            iterator = StreamIterator.from_bytes(deleted.iterator.to_bytes())
    return deleted_count


class Table(RuleBasedStateMachine):
    """A table whose changes are written late, refused, or never, beside a dictionary; walks stand still in between."""

    def __init__(self) -> None:
        super().__init__()
        self.data_dir = Path(tempfile.mkdtemp())
        self.now = 1_700_000_000_000_000
        self.numbers = count(1)
        self.table = self.open()
        self.written: dict[str, bytes] = {}
        self.seen: dict[str, bytes] = {}
        self.queue: list[tuple[Change, str, bytes | None]] = []
        self.walks: list[tuple[KeyedWalk, str, dict[str, bytes], set[str]]] = []

    def open(self) -> KeyedTable:
        backend = KeyedBackend(self.data_dir, KeyedOptions((2, 1), 40), lambda: self.now)
        table = backend.table("t")
        table.open()
        return table

    @rule(topic=TOPICS, lifetime_s=st.none() | st.integers(1, 20))
    def put(self, topic: str, lifetime_s: int | None) -> None:
        number = next(self.numbers)
        expires_us = 0 if lifetime_s is None else self.now + lifetime_s * 1_000_000
        self.queue.append((self.table.put(message(number, topic), expires_us), topic, b"%d" % number))
        self.changed(topic, b"%d" % number)

    @rule(topic=TOPICS, even_if_absent=st.booleans())
    def remove(self, topic: str, even_if_absent: bool) -> None:
        change = self.table.remove(topic, even_if_absent=even_if_absent)
        assert change is not None or topic not in self.seen
        if change is not None:
            self.queue.append((change, topic, None))
            self.changed(topic, None)

    @rule(amount=st.integers(1, 6))
    def write(self, amount: int) -> None:
        going, self.queue = self.queue[:amount], self.queue[amount:]
        self.table.write([change for change, _, _ in going])
        for _, topic, payload in going:
            set_or_remove(self.written, topic, payload)

    @rule(amount=st.integers(1, 6))
    def refuse(self, amount: int) -> None:
        """Some cannot be written, and with them one that was made before the table was open."""
        going, self.queue = self.queue[:amount], self.queue[amount:]
        with pytest.raises(StorageError):
            self.table.write([*(change for change, _, _ in going), Change(b"", None, 0)])
        before, self.seen = self.seen, dict(self.written)
        for _, topic, payload in self.queue:
            set_or_remove(self.seen, topic, payload)
        for _, _, wanted, _ in self.walks:
            for topic in {
                topic for topic in before.keys() | self.seen.keys() if before.get(topic) != self.seen.get(topic)
            }:
                wanted.pop(topic, None)

    @rule()
    def crash(self) -> None:
        """What was written stays, what waited is gone."""
        self.table.close()
        self.table = self.open()
        self.queue.clear()
        self.walks.clear()
        self.seen = dict(self.written)

    @rule(seconds=st.integers(1, 9), amount=st.integers(1, 3))
    def sweep(self, seconds: int, amount: int) -> None:
        self.now += seconds * 1_000_000
        for key in self.table.due(self.now, amount):
            change = self.table.remove_key(key)
            assert change is not None
            topic = topic_of(key)
            assert topic in self.seen
            self.queue.append((change, topic, None))
            self.changed(topic, None)

    @rule(topic_filter=FILTERS)
    def begin_to_walk(self, topic_filter: str) -> None:
        wanted = {topic: payload for topic, payload in self.seen.items() if matches(topic, topic_filter)}
        self.walks.append((self.table.walk(topic_filter), topic_filter, wanted, set()))

    @precondition(lambda self: self.walks)
    @rule(data=st.data(), amount=st.integers(1, 4), cost=st.integers(1, 30))
    def walk_on(self, data: st.DataObject, amount: int, cost: int) -> None:
        walk, topic_filter, wanted, found = data.draw(st.sampled_from(self.walks))
        for key, record in self.table.step(walk, amount, 1 << 20, cost).records:
            topic = topic_of(key)
            assert matches(topic, topic_filter)
            assert topic not in found
            found.add(topic)
            assert stored_message(key, record).payload == self.seen[topic]
            wanted.pop(topic, None)
        if walk.is_done:
            assert wanted == {}

    @invariant()
    def agrees(self) -> None:
        assert len(self.table) == len(self.seen)
        assert (self.table.size_bytes > 0) == bool(self.seen)

    def teardown(self) -> None:
        for walk, _, wanted, _ in self.walks:
            while not walk.is_done:
                for key, _ in self.table.step(walk, 3, 1 << 20, 5).records:
                    wanted.pop(topic_of(key), None)
            assert wanted == {}
        for topic, payload in self.seen.items():
            record = self.table.get(topic)
            assert record is not None
            assert times(record).stored_at > 0
            assert record.endswith(payload)
        self.write(len(self.queue))
        self.now += 100_000_000
        while due := self.table.due(self.now, 2):
            self.table.write([change for key in due if (change := self.table.remove_key(key)) is not None])
        for topic in list(self.written):
            change = self.table.remove(topic)
            self.table.write([] if change is None else [change])
        assert (len(self.table), self.table.size_bytes) == (0, 0)
        self.table.close()
        shutil.rmtree(self.data_dir)

    def changed(self, topic: str, payload: bytes | None) -> None:
        set_or_remove(self.seen, topic, payload)
        for _, _, wanted, _ in self.walks:
            wanted.pop(topic, None)


def set_or_remove(values: dict[str, bytes], topic: str, payload: bytes | None) -> None:
    if payload is None:
        values.pop(topic, None)
    else:
        values[topic] = payload


def test_reading_ends_where_nothing_follows(tmp_path: Path) -> None:
    database = KeyedBackend(tmp_path).open_db("d", DatabaseOptions())
    database.store_batch([message(1, "a/b")])
    (stream,) = database.get_streams("a/+")
    iterator = database.make_iterator(stream.id, "no/match")
    assert database.next(iterator, 1) == Batch(iterator, ())
    database.close()


Databases.TestCase.settings = settings(_SETTINGS, max_examples=15)  # each step waits for the disk
Table.TestCase.settings = _SETTINGS
TestDatabases = pytest.mark.slow(Databases.TestCase)
TestTable = pytest.mark.slow(Table.TestCase)


def test_an_entry_of_an_earlier_message_does_not_expire_the_one_that_is_there(tmp_path: Path) -> None:
    table = KeyedTable("retained", tmp_path / "retained")
    table.open()
    table.commit([table.put(message(1, "a/b"), 2000), table.put(message(2, "c"), 1000)])
    key = table.topics.find("a/b")
    assert key is not None
    with table._store.reading() as rocks:
        rocks.put(due_key(500, key), b"")
    assert [topic_of(one) for one in table.due(1500, 10)] == ["c"]
    assert [topic_of(one) for one in table.due(2000, 10)] == ["a/b"]
    table.close()
