"""A keyed table reads as a dictionary, whatever happens in between."""

import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from heliograph.storage.engine import open_primary
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import KeyedOptions, StoredMessage
from heliograph.storage.keyed.changes import KeyedChange
from heliograph.storage.keyed.records import due_key, stored_message, times, topic_of
from heliograph.storage.keyed.table import KeyedTable, keyed_path
from heliograph.storage.keyed.walk import KeyedWalk
from storage.topics import filters_over, topics_over
from support.forms import examples
from support.naive import matches

LEVELS = st.sampled_from(["", "a", "b", "c", "d", "$x", "a!", "é"])
TOPICS = topics_over(LEVELS)
FILTERS = filters_over(LEVELS)
# Few names are learned, or nearly none: then most topics share the stream of all that there is no room for.
LAYOUTS = st.sampled_from(
    [KeyedOptions((2, 1), 40), KeyedOptions((2, 1)), KeyedOptions((8,)), KeyedOptions((1,)), KeyedOptions((3, 2), 3)]
)
_SETTINGS = settings(
    max_examples=examples(40), stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def message(number: int, topic: str, clientid: str = "c") -> StoredMessage:
    return StoredMessage(number, number, topic, b"%d" % number, number % 3, number % 2 == 0, clientid, None, b"", 0)


class Table(RuleBasedStateMachine):
    """A table whose changes are written late, refused, or never, beside a dictionary; walks stand still in between."""

    def __init__(self) -> None:
        super().__init__()
        self.data_dir = Path(tempfile.mkdtemp())
        self.now = 1_700_000_000_000_000
        self.numbers = count(1)
        self.layout: KeyedOptions | None = None
        self.table = self.open()
        self.written: dict[str, bytes] = {}
        self.seen: dict[str, bytes] = {}
        self.queue: list[tuple[KeyedChange, str, bytes | None]] = []
        self.walks: list[tuple[KeyedWalk, str, dict[str, bytes], set[str]]] = []

    def open(self) -> KeyedTable:
        options = self.layout or KeyedOptions()
        table = KeyedTable("t", keyed_path(self.data_dir) / "t", options, clock=lambda: self.now)
        table.open()
        return table

    @initialize(layout=LAYOUTS)
    def lay_out(self, layout: KeyedOptions) -> None:
        self.table.close()
        shutil.rmtree(self.data_dir)
        self.layout = layout
        self.table = self.open()

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
            self.table.write([*(change for change, _, _ in going), KeyedChange(b"", None, 0)])
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


Table.TestCase.settings = _SETTINGS
TestTable = pytest.mark.slow(Table.TestCase)


def test_an_entry_of_an_earlier_message_does_not_expire_the_one_that_is_there(tmp_path: Path) -> None:
    table = KeyedTable("retained", tmp_path / "retained")
    table.open()
    table.commit([table.put(message(1, "a/b"), 2000), table.put(message(2, "c"), 1000)])
    key = table.topics.find("a/b")
    assert key is not None
    table.close()
    rocks = open_primary(table.path, "lz4")
    rocks.put(due_key(500, key), b"")
    rocks.close()
    table.open()
    assert [topic_of(one) for one in table.due(1500, 10)] == ["c"]
    assert [topic_of(one) for one in table.due(2000, 10)] == ["a/b"]
    table.close()
