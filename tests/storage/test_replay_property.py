"""Any interleaving of stores, replays, generations that come and go, and restarts reads as the reference does."""

import shutil
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.errors import DroppedGenerationError
from heliograph.storage.interface import (
    ColumnarOptions,
    DatabaseOptions,
    EndOfStream,
    StoredMessage,
    StreamId,
    StreamIterator,
)
from reference.databases import ReferenceDatabase
from reference.storage import ReadDatabase, replayed
from storage.topics import filters_over, topics_over
from support.databases import open_database, store_batch
from support.forms import examples

LEVELS = st.sampled_from(["", "a", "b", "c", "d", "$x"])
TOPICS = topics_over(LEVELS, 3)
FILTERS = filters_over(LEVELS, 3)
CLIENTS = st.sampled_from(["c1", "c2", "c3"])
LAYOUTS = st.sampled_from([(2, 1), (1,), (3, 2, 1)])


def by_client_and_topic(messages: list[StoredMessage]) -> dict[tuple[str, str], list[StoredMessage]]:
    """What order is about: the messages of each client on each topic."""
    found: dict[tuple[str, str], list[StoredMessage]] = {}
    for message in messages:
        found.setdefault((message.clientid, message.topic), []).append(message)
    return found


class Consumer:
    """Reads one filter of one database, a few messages at a time, and goes on with it after anything that happens."""

    def __init__(self, database: Callable[[], ReadDatabase], topic_filter: str) -> None:
        self.database = database
        self.topic_filter = topic_filter
        self.found: list[StoredMessage] = []
        self.saved: dict[StreamId, StreamIterator] = {}
        self.done: set[StreamId] = set()

    def read(self, n: int | None) -> None:
        """Read up to `n` messages of each stream that is there, in the order of their ranks; None for all there are."""
        database = self.database()
        oldest: dict[int, int] = {}  # of each x, the y that must be finished first
        for stream in sorted(database.get_streams(self.topic_filter), key=lambda stream: stream.rank):
            while stream.id not in self.done and stream.rank.y <= oldest.get(stream.rank.x, stream.rank.y):
                saved = self.saved.get(stream.id)
                iterator = database.make_iterator(stream.id, self.topic_filter) if saved is None else saved
                batch = database.next(iterator, n or 5)
                if isinstance(batch, EndOfStream):
                    assert stream.sealed
                    self.done.add(stream.id)
                    break
                self.found += batch.messages
                self.saved[stream.id] = batch.iterator
                if n is not None or not batch.messages:
                    oldest.setdefault(*stream.rank)
                    break


class Replay(RuleBasedStateMachine):
    """The database beside the reference; commits have the same times in both."""

    def __init__(self) -> None:
        super().__init__()
        self.data_dir = Path(tempfile.mkdtemp())
        self.layout: tuple[int, ...] = (2, 1)
        self.local = self.open()
        self.reference = ReferenceDatabase("messages", self.last_time)
        self.numbers = count(1)
        self.is_whole = True  # nothing was dropped
        self.consumers: list[tuple[Consumer, Consumer]] = []

    def open(self) -> LocalDatabase:
        options = DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=self.layout))
        return open_database(self.data_dir, options=options)

    def last_time(self) -> int:
        """The time of the newest commit, which the reference is given for its own."""
        return self.local.statistics()["last_commit_us"]

    @rule(batch=st.lists(st.tuples(TOPICS, CLIENTS), min_size=1, max_size=12))
    def store(self, batch: list[tuple[str, str]]) -> None:
        messages = self.messages(batch)
        store_batch(self.local, messages)
        store_batch(self.reference, messages)

    @rule()
    def add_generation(self) -> None:
        self.local.add_generation()
        self.reference.add_generation()

    @rule(part=st.floats(0, 1))
    def drop_generation(self, part: float) -> None:
        closed = [info.number for info in self.reference.list_generations()][:-1]
        if closed:
            number = closed[int(part * (len(closed) - 1))]
            iterators = [
                self.local.make_iterator(stream.id, "#")
                for stream in self.local.get_streams("#")
                if stream.id.generation == number
            ]
            self.local.drop_generation(number)
            self.reference.drop_generation(number)
            self.is_whole = False
            for iterator in iterators:
                with pytest.raises(DroppedGenerationError):
                    self.local.next(iterator, 1)

    @rule()
    def restart(self) -> None:
        self.local.close()
        self.local = self.open()

    @rule(layout=LAYOUTS)
    def restart_with_another_layout(self, layout: tuple[int, ...]) -> None:
        before = len(self.local.list_generations())
        self.layout = layout
        self.restart()
        if len(self.local.list_generations()) > before:
            self.reference.add_generation()

    @rule(topic_filter=FILTERS, n=st.integers(1, 9), part=st.none() | st.floats(0, 1))
    def replay(self, topic_filter: str, n: int, part: float | None) -> None:
        times = sorted(message.stored_at for one in ("#", "$x/#") for message in replayed(self.reference, one))
        start = times[int(part * (len(times) - 1))] if part is not None and times else None
        found = replayed(self.local, topic_filter, start, n)
        assert by_client_and_topic(found) == by_client_and_topic(replayed(self.reference, topic_filter, start, n))

    @rule()
    def generations_are_the_same(self) -> None:
        local = [(one.number, one.since, one.until) for one in self.local.list_generations() if one.shard == 0]
        reference = [(one.number, one.since, one.until) for one in self.reference.list_generations()]
        assert [number for number, _, _ in local] == [number for number, _, _ in reference]
        assert [until is None for _, _, until in local] == [until is None for _, _, until in reference]

    @rule(topic_filter=FILTERS)
    def begin_to_consume(self, topic_filter: str) -> None:
        if len(self.consumers) < 4:
            pair = Consumer(lambda: self.local, topic_filter), Consumer(lambda: self.reference, topic_filter)
            self.consumers.append(pair)

    @precondition(lambda self: self.consumers)
    @rule(n=st.integers(1, 6))
    def consume(self, n: int) -> None:
        for consumer, _ in self.consumers:
            consumer.read(n)

    def messages(self, batch: list[tuple[str, str]]) -> list[StoredMessage]:
        return [
            StoredMessage(number, number, topic, b"%d" % number, number % 3, number % 2 == 0, clientid, None, b"", 0)
            for (topic, clientid), number in zip(batch, self.numbers, strict=False)
        ]

    def teardown(self) -> None:
        for consumer, reference in self.consumers:
            consumer.read(None)
            reference.read(None)
            numbers = [message.id_low for message in consumer.found]
            assert len(numbers) == len(set(numbers))
            found, wanted = by_client_and_topic(consumer.found), by_client_and_topic(reference.found)
            if self.is_whole:
                assert found == wanted
            for place, messages in found.items():
                order = [message.id_low for message in messages]
                assert order == sorted(order)
                assert len(messages) >= len(wanted.get(place, ()))
        self.local.close()
        shutil.rmtree(self.data_dir)


Replay.TestCase.settings = settings(
    max_examples=examples(25), stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestReplay = pytest.mark.slow(Replay.TestCase)
