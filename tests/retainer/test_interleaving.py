"""The stores against a dictionary, with anything happening while matches are read in slices."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heliograph.broker.retained import RetainedMatches
from heliograph.retainer.disk import DiskRetainer
from retainer.retaining import clear, close, make_retainer, retain, settle, topics
from support.forms import examples
from support.kernel import START_US
from support.naive import matches
from support.options import RETAINER
from support.strategies import topic_filters, topic_names

_US = 1_000_000
_EVERYTHING = ("#", "$/#", "$SYS/#")


class Reading:
    """One reader: what must still come to it, and what may not."""

    def __init__(self, found: RetainedMatches, expected: dict[str, bytes]) -> None:
        self.found = found
        self.expected = expected


class Store(RuleBasedStateMachine):
    kind = "ram"

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.retainer = make_retainer(self.kind, self.directory, replace(RETAINER, batch_read_number=2))
        self.model: dict[str, tuple[bytes, int]] = {}  # payload, when it expires
        self.readings: list[Reading] = []
        self.now_us = START_US
        self.kept_count = 0

    @rule(topic=topic_names(), expiry_s=st.none() | st.integers(0, 20))
    def keep(self, topic: str, expiry_s: int | None) -> None:
        self.kept_count += 1
        payload = b"%d" % self.kept_count
        retain(self.retainer, topic, payload, expiry_s=expiry_s)
        self.model[topic] = (payload, 1 << 62 if expiry_s is None else self.now_us + expiry_s * _US)
        self._changed(topic)

    @rule(topic=topic_names())
    def clear(self, topic: str) -> None:
        retain(self.retainer, topic, b"")
        self.model.pop(topic, None)
        self._changed(topic)

    @rule(topic_filter=topic_filters(), count=st.integers(1, 3))
    def clear_some(self, topic_filter: str, count: int) -> None:
        before = set(topics(self.retainer, topic_filter))
        assert clear(self.retainer, topic_filter, count) == min(count, len(before))
        for topic in before - set(topics(self.retainer, topic_filter)):
            del self.model[topic]
            self._changed(topic)

    @rule(seconds=st.integers(1, 15))
    def wait(self, seconds: int) -> None:
        self.now_us += seconds * _US
        self.retainer.broker.begin_turn(self.now_us)
        for topic in [topic for topic, (_, expires_us) in self.model.items() if expires_us <= self.now_us]:
            del self.model[topic]
            self._changed(topic)

    @rule(count=st.integers(1, 3))
    def sweep(self, count: int) -> None:
        self.retainer.sweep(count)

    @rule()
    def write(self) -> None:
        settle(self.retainer)

    @rule(topic_filter=topic_filters() | topic_names())
    def ask(self, topic_filter: str) -> None:
        expected = {
            topic: payload
            for topic, (payload, expires_us) in self.model.items()
            if expires_us > self.now_us and matches(topic, topic_filter)
        }
        assert self.retainer.may_match(topic_filter) or not expected
        self.readings.append(Reading(self.retainer.match(topic_filter), expected))

    @rule()
    def learn(self) -> None:
        self.retainer.learn()

    @precondition(lambda self: self.readings)
    @rule(data=st.data())
    def read_one(self, data: st.DataObject) -> None:
        reading = data.draw(st.sampled_from(self.readings))
        message = reading.found.next()
        if message is not None:
            assert reading.expected.pop(message.topic) == message.payload
        elif reading.found.is_done():
            assert reading.expected == {}
            self.readings.remove(reading)

    @invariant()
    def agrees(self) -> None:
        left = {topic for topic, (_, expires_us) in self.model.items() if expires_us > self.now_us}
        assert len(self.retainer) >= len(left)
        assert all(len(reading.expected) <= len(left) for reading in self.readings)

    def teardown(self) -> None:
        for reading in self.readings:
            while not reading.found.is_done():
                message = reading.found.next()
                assert message is None or reading.expected.pop(message.topic) == message.payload
            assert reading.expected == {}
        left = [topic for topic, (_, expires_us) in self.model.items() if expires_us > self.now_us]
        found = [topic for topic_filter in _EVERYTHING for topic in topics(self.retainer, topic_filter)]
        assert sorted(found) == sorted(left)
        for topic_filter in _EVERYTHING:
            clear(self.retainer, topic_filter)
        assert len(self.retainer) == 0
        assert self.retainer.statistics()["retained.bytes"] == 0
        close(self.retainer)
        shutil.rmtree(self.directory)

    def _changed(self, topic: str) -> None:
        """Readers will not get the message that a topic had any more."""
        for reading in self.readings:
            reading.expected.pop(topic, None)


class DiscStore(Store):
    kind = "disc-late"

    @rule()
    def open_again(self) -> None:
        """As after a fault: what was not written yet is still to be written."""
        assert isinstance(self.retainer, DiskRetainer)
        for reading in self.readings:
            while not reading.found.is_done():
                message = reading.found.next()
                assert message is None or reading.expected.pop(message.topic) == message.payload
        self.readings.clear()
        self.retainer.table.open()


_SETTINGS = settings(max_examples=examples(50), stateful_step_count=40, deadline=None)
TestStore = Store.TestCase
TestStore.settings = _SETTINGS
DiscStore.TestCase.settings = _SETTINGS
TestDiscStore = pytest.mark.slow(DiscStore.TestCase)
