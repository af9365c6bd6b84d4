"""Filters of a query as a narrower selection: never narrower than the rows that the filters take."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from heliograph.mqtt.topic import topic_matches
from heliograph.pipeline.datasource.client import MessageSelection
from heliograph.pipeline.datasource.pushdown import intersection, narrow
from support.cases import cases

_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_MICROSECONDS = 1_767_225_600_000_000


def narrowed(*filters: Filter, topics: tuple[str, ...] = ("#",)) -> MessageSelection | None:
    return narrow(MessageSelection(topics=topics), filters).selection


@cases(
    ("one", "other", "both"),
    [
        ("#", "a/b", "a/b"),
        ("a/+/c", "+/b/#", "a/b/c"),
        ("a/#", "a", "a"),
        ("a/#", "a/+", "a/+"),
        ("a/+", "a/b/#", "a/b"),
        ("a/b", "a/c", None),
        ("a", "a/b", None),
        ("#", "$SYS/a", None),
        ("$SYS/#", "$SYS/+/b", "$SYS/+/b"),
        ("+/a", "$x/a", None),
    ],
)
def test_two_filters_have_one_in_common(one: str, other: str, both: str | None) -> None:
    assert intersection(one, other) == both
    assert intersection(other, one) == both


_LEVELS = st.sampled_from(["a", "b", "", "$s"])
_TOPICS = st.lists(_LEVELS, min_size=1, max_size=3).map("/".join).filter(bool)
_FILTERS = st.builds(
    lambda levels, last: "/".join([*levels, *last]),
    st.lists(st.one_of(_LEVELS, st.just("+")), min_size=0, max_size=3),
    st.sampled_from([["#"], ["a"], ["+"]]),
)


@given(_FILTERS, _FILTERS, _TOPICS)
def test_what_two_filters_have_in_common_is_what_both_take(one: str, other: str, topic: str) -> None:
    both = intersection(one, other)
    expected = topic_matches(topic, one) and topic_matches(topic, other)
    assert (both is not None and topic_matches(topic, both)) == expected


def test_topics_narrow_the_topics() -> None:
    assert narrowed(EqualTo(("topic",), "a/b")) == MessageSelection(topics=("a/b",))
    assert narrowed(In(("topic",), ("a/b", "c", None)), topics=("a/+",)) == MessageSelection(topics=("a/b",))
    assert narrowed(StringStartsWith(("topic",), "a/b/dev"), topics=("+/+/#",)) == MessageSelection(topics=("a/b/#",))
    assert narrowed(EqualTo(("topic",), "c"), topics=("a/+",)) is None
    assert narrowed(EqualTo(("topic",), "a/+")) is None


@cases("prefix", ["", "a", "$S", "+/"])
def test_a_prefix_without_a_whole_level_narrows_nothing(prefix: str) -> None:
    assert narrowed(StringStartsWith(("topic",), prefix)) == MessageSelection()


def test_times_of_storing_narrow_the_span() -> None:
    from_, to = GreaterThanOrEqual(("stored_at",), _TIME), LessThan(("stored_at",), _TIME)
    assert narrowed(from_) == MessageSelection(start=_MICROSECONDS)
    assert narrowed(GreaterThan(("stored_at",), _TIME)) == MessageSelection(start=_MICROSECONDS + 1)
    assert narrowed(to) == MessageSelection(end=_MICROSECONDS)
    assert narrowed(LessThanOrEqual(("stored_at",), _TIME)) == MessageSelection(end=_MICROSECONDS + 1)
    assert narrowed(EqualTo(("stored_at",), _TIME)) == MessageSelection(start=_MICROSECONDS, end=_MICROSECONDS + 1)
    assert narrowed(from_, to) is None


def test_clients_and_shards_narrow_and_are_narrowed_together() -> None:
    assert narrowed(In(("clientid",), ("a", "b")), EqualTo(("clientid",), "b")) == MessageSelection(clientids=("b",))
    assert narrowed(EqualTo(("clientid",), "a"), EqualTo(("clientid",), "b")) is None
    assert narrowed(In(("shard",), (0, 1)), EqualTo(("shard",), 1)) == MessageSelection(shards=(1,))


def test_spark_is_left_what_the_reader_does_not_decide() -> None:
    inexact: list[Filter] = [
        StringStartsWith(("topic",), "a/b"),
        Not(EqualTo(("topic",), "a")),
        StringContains(("topic",), "a"),
        EqualTo(("qos",), 1),
        EqualTo(("value", "topic"), "a"),
        IsNotNull(("username",)),
        # A node's clock may have gone back since, so this says nothing of when a message was stored.
        GreaterThan(("received_at",), _TIME),
        In(("topic",), tuple(f"t/{number}" for number in range(1000))),
    ]
    exact: list[Filter] = [EqualTo(("topic",), "a/b/c"), LessThan(("stored_at",), _TIME), IsNotNull(("topic",))]
    assert narrow(MessageSelection(), [*inexact, *exact]).left == tuple(inexact)
