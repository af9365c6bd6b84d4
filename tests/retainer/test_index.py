"""What the topic index finds, against asking every topic."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph.mqtt.topic import topic_matches
from heliograph.retainer.index import LEVELS_INDEXED, RetainedTopicIndex
from heliograph.retainer.memory import MemoryRetainer
from retainer.retaining import read, retain, topics
from support.cases import cases
from support.kernel import Kernel
from support.naive import matches
from support.options import RETAINER
from support.strategies import topic_filters, topic_names

_DEEP = "/".join(["a"] * (LEVELS_INDEXED - 1))


@given(
    names=st.lists(topic_names(), unique=True, max_size=30), gone=st.sets(st.integers(0, 29)), wanted=topic_filters()
)
def test_the_index_finds_what_the_filter_matches(names: list[str], gone: set[int], wanted: str) -> None:
    index = RetainedTopicIndex()
    for slot, name in enumerate(names):
        index.add(slot, name.encode())
    for slot, name in enumerate(names):
        if slot in gone:
            index.discard(slot, name.encode())
    found = index.find(wanted.encode())
    assert set(found) == {slot for slot, name in enumerate(names) if slot not in gone and matches(name, wanted)}


@given(
    names=st.lists(topic_names().map(lambda name: f"{_DEEP}/{name}"), unique=True, max_size=20),
    wanted=topic_filters().map(lambda topic_filter: f"{_DEEP}/{topic_filter}"),
    wild=st.integers(0, LEVELS_INDEXED - 1),
)
def test_topics_deeper_than_the_index_are_found_too(names: list[str], wanted: str, wild: int) -> None:
    levels = wanted.split("/")
    wanted = "/".join(["+"] * wild + levels[wild:])
    retainer = MemoryRetainer(Kernel().broker, RETAINER)
    for name in [*names, "a", "b/a"]:
        retain(retainer, name)
    assert topics(retainer, wanted) == sorted(name for name in names if topic_matches(name, wanted))


@cases("count", [1, 2, 255, 256, 257, 1000])
def test_a_word_may_be_in_few_topics_or_many(count: int) -> None:
    index = RetainedTopicIndex()
    names = [b"%d/x" % number for number in range(count)]
    for slot, name in enumerate(names):
        index.add(slot * 70_000, name)  # far apart
    index.add(3, b"other/y")
    assert list(index.find(b"+/x")) == [slot * 70_000 for slot in range(count)]
    for slot, name in enumerate(names):
        index.discard(slot * 70_000, name)
        assert len(index.find(b"+/x/#")) == count - slot - 1
    assert list(index.find(b"#")) == [3]


def test_a_slot_whose_bytes_stand_across_two_others_is_not_taken_for_one() -> None:
    index = RetainedTopicIndex()
    slots = [0x0201_0000, 0x0000_0403, 0x0403_0201]  # the last one's bytes stand in the first two at an odd place
    for slot in slots:
        index.add(slot, b"x/%d" % slot)
    index.discard(slots[2], b"x/%d" % slots[2])
    assert sorted(index.find(b"x/+")) == sorted(slots[:2])


def test_a_topic_of_60000_levels_costs_little_and_is_found() -> None:
    retainer = MemoryRetainer(Kernel().broker, RETAINER)
    levels = ["a"] * 30_000
    deep = "/".join(levels)
    retain(retainer, deep, b"deep")
    for topic_filter in ("/".join(["+"] * 30_000), deep, "#", "+/#", "/".join(levels[:-1]) + "/+", "a/a/#"):
        assert read(retainer.match(topic_filter)) == [(deep, b"deep")]
    for topic_filter in ("/".join(["+"] * 29_999), "/".join(levels[:-1]) + "/b", deep + "/+", "b/#"):
        assert read(retainer.match(topic_filter)) == []
    empty = "/" * 60_000
    retain(retainer, empty)
    assert topics(retainer, "+/+/#") == sorted([deep, empty])
    retain(retainer, deep, b"")
    retain(retainer, empty, b"")
    assert len(retainer) == 0
