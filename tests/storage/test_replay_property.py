"""Any interleaving of stores, new generations and restarts replays as a plain list would."""

import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from heliograph.mqtt.topic import topic_matches
from heliograph.storage.interface import (
    END_OF_STREAM,
    Batch,
    ColumnarOptions,
    DatabaseOptions,
    StoredMessage,
    StreamIterator,
)
from heliograph.storage.local import LocalBackend, LocalDatabase

LEVELS = st.sampled_from(["", "a", "b", "c", "d", "$x"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=3).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, end: "/".join(levels + end),
    st.lists(st.one_of(LEVELS, st.just("+")), max_size=3),
    st.sampled_from([[], ["#"]]),
).filter(bool)
OPTIONS = DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=(2, 1)))


class Replay(RuleBasedStateMachine):
    """The database beside a list of what was stored."""

    def __init__(self) -> None:
        super().__init__()
        self.data_dir = Path(tempfile.mkdtemp())
        self.database = self.open()
        self.stored: list[StoredMessage] = []
        self.iterators: dict[tuple[str, str], tuple[int, bytes]] = {}
        self.numbers = count(1)

    def open(self) -> LocalDatabase:
        return LocalBackend(self.data_dir).open_database("messages", OPTIONS)

    @rule(batch=st.lists(st.tuples(TOPICS, st.sampled_from(["c1", "c2", "c3"])), min_size=1, max_size=12))
    def store(self, batch: list[tuple[str, str]]) -> None:
        messages = [
            StoredMessage(number, number, topic, b"%d" % number, number % 3, number % 2 == 0, clientid, None, b"", 0)
            for (topic, clientid), number in zip(batch, self.numbers, strict=False)
        ]
        self.database.store_batch(messages)
        self.stored += messages

    @rule()
    def add_generation(self) -> None:
        self.database.add_generation()

    @rule()
    def restart(self) -> None:
        self.database.close()
        self.database = self.open()

    @rule(topic_filter=FILTERS, n=st.integers(1, 9))
    def replay_all(self, topic_filter: str, n: int) -> None:
        found = self.read(topic_filter, None, n)
        self.check(found, [message for message in self.stored if topic_matches(message.topic, topic_filter)])

    @rule(topic_filter=FILTERS, part=st.floats(0, 1))
    def replay_from_a_time(self, topic_filter: str, part: float) -> None:
        everything = self.read("#", None, 100) + self.read("$x/#", None, 100)
        if not everything:
            return
        start = sorted(message.stored_at for message in everything)[int(part * (len(everything) - 1))]
        late = {message.id_low for message in everything if message.stored_at >= start}
        found = self.read(topic_filter, start, 5)
        wanted = [m for m in self.stored if m.id_low in late and topic_matches(m.topic, topic_filter)]
        self.check(found, wanted)

    def read(self, topic_filter: str, start: int | None, n: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        for stream in sorted(self.database.get_streams(topic_filter, start), key=lambda stream: stream.rank):
            iterator = self.database.make_iterator(stream.id, topic_filter, start)
            while True:
                result = self.database.next(iterator, n)
                if not isinstance(result, Batch):
                    assert result is END_OF_STREAM
                    assert stream.sealed
                    break
                if not result.messages:
                    assert not stream.sealed
                    break
                assert len(result.messages) <= n
                found.extend(result.messages)
                iterator = StreamIterator.from_bytes(result.iterator.to_bytes())
        return found

    def check(self, found: list[StoredMessage], wanted: list[StoredMessage]) -> None:
        """The same messages; each client's messages of one topic in their order."""
        assert sorted(message.id_low for message in found) == [message.id_low for message in wanted]
        by_number = {message.id_low: message for message in wanted}
        for message in found:
            original = by_number[message.id_low]
            assert (message.topic, message.payload, message.clientid) == (
                original.topic,
                original.payload,
                original.clientid,
            )
        for place in {(message.topic, message.clientid) for message in wanted}:
            numbers = [message.id_low for message in found if (message.topic, message.clientid) == place]
            assert numbers == sorted(numbers)

    def teardown(self) -> None:
        self.database.close()
        shutil.rmtree(self.data_dir)


Replay.TestCase.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestReplay = pytest.mark.slow(Replay.TestCase)
