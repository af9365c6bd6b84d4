"""The store of retained messages against a dictionary, and its limits."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph.broker.message import make_message
from heliograph.retainer.memory import MemoryRetainer
from support.kernel import START_US, Kernel
from support.naive import matches
from support.strategies import topic_filters, topic_names


def retain(retainer: MemoryRetainer, topic: str, payload: bytes, expiry: bytes = b"") -> None:
    retainer.retain(make_message(START_US, 1, topic, payload, 0, True, expiry, "pub", None))


steps = st.lists(st.tuples(topic_names(), st.sampled_from([b"", b"one", b"two"])), min_size=5, max_size=30)


@given(steps=steps, topic_filter=topic_filters())
def test_the_store_agrees_with_a_dictionary(steps: list[tuple[str, bytes]], topic_filter: str) -> None:
    retainer = MemoryRetainer(Kernel().broker)
    naive: dict[str, bytes] = {}
    for topic, payload in steps:
        retain(retainer, topic, payload)
        if payload:
            naive[topic] = payload
        else:
            naive.pop(topic, None)
    found = {message.topic: message.payload for message in retainer.match(topic_filter)}
    assert found == {topic: payload for topic, payload in naive.items() if matches(topic, topic_filter)}
    assert len(retainer) == len(naive)
    for topic in naive:
        retain(retainer, topic, b"")
    assert len(retainer) == 0
    assert retainer._root.children == {}


def test_no_more_topics_than_the_operator_wants() -> None:
    retainer = MemoryRetainer(Kernel().broker, messages_max=2)
    for topic in ("a", "b", "c"):
        retain(retainer, topic, b"x")
    retain(retainer, "a", b"newer")
    assert sorted((message.topic, message.payload) for message in retainer.match("#")) == [("a", b"newer"), ("b", b"x")]
    retain(retainer, "b", b"")
    retain(retainer, "c", b"x")
    assert sorted(message.topic for message in retainer.match("#")) == ["a", "c"]
    assert retainer.statistics() == {
        "retained.count": 2,
        "retained.refused.full": 1,
        "retained.refused.payload_size": 0,
    }


def test_payloads_that_are_too_large_are_not_kept() -> None:
    retainer = MemoryRetainer(Kernel().broker, payload_bytes_max=3)
    retain(retainer, "a", b"abc")
    retain(retainer, "b", b"abcd")
    assert [message.topic for message in retainer.match("#")] == ["a"]
    assert retainer.statistics()["retained.refused.payload_size"] == 1


def test_the_operators_expiry_is_for_messages_without_one() -> None:
    kernel = Kernel()
    retainer = MemoryRetainer(kernel.broker, expiry_s=10)
    retain(retainer, "default", b"x")
    retain(retainer, "longer", b"x", b"\x02" + (20).to_bytes(4, "big"))
    retain(retainer, "shorter", b"x", b"\x02" + (5).to_bytes(4, "big"))
    for after_s, topics in [(4, ["default", "longer", "shorter"]), (5, ["default", "longer"]), (10, ["longer"])]:
        kernel.broker.now_us = START_US + after_s * 1_000_000
        assert sorted(message.topic for message in retainer.match("#")) == topics
    assert len(retainer) == 1


def test_a_topic_of_many_levels_is_found() -> None:
    retainer = MemoryRetainer(Kernel().broker)
    deep = "/".join("a" * 5_000)
    retain(retainer, deep, b"x")
    assert [message.topic for message in retainer.match("#")] == [deep]
    retain(retainer, deep, b"")
    assert len(retainer) == 0


def test_a_topic_may_have_more_levels_than_python_has_frames() -> None:
    retainer = MemoryRetainer(Kernel().broker)
    levels = ["a"] * 20_000
    retain(retainer, "/".join(levels), b"deep")
    for topic_filter in ("/".join(["+"] * 20_000), "/".join(levels), "#", "+/#"):
        assert [message.payload for message in retainer.match(topic_filter)] == [b"deep"]
    retain(retainer, "/".join(levels), b"")
    assert len(retainer) == 0


def test_a_message_is_held_until_another_takes_its_place() -> None:
    retainer = MemoryRetainer(Kernel().broker)
    retain(retainer, "a/b", b"one")
    (first,) = retainer.match("a/b")
    assert retainer.holds(first)
    retain(retainer, "a/b", b"two")
    assert not retainer.holds(first)
    retain(retainer, "a/b", b"")
    assert not retainer.holds(first)
