import pytest
from hypothesis import given

from heliograph.mqtt.topic import has_wildcard, topic_filter_fault, topic_matches, topic_name_fault
from support.naive import matches
from support.strategies import topic_filters, topic_names

LEVELS_MAX = 128


@pytest.mark.parametrize(
    ("topic", "topic_filter"),
    [
        ("a", "a"),
        ("a", "+"),
        ("a", "#"),
        ("a", "a/#"),  # the parent level too
        ("a/b", "a/#"),
        ("a/b/c", "a/#"),
        ("a/b/c", "#"),
        ("a/b", "a/+"),
        ("a/", "a/+"),  # an empty level is a level
        ("/a", "+/a"),
        ("/a", "+/+"),
        ("/", "+/+"),
        ("/", "#"),
        ("//", "+/+/+"),
        ("a//b", "a/+/b"),
        ("a/b/c", "+/b/+"),
        ("a/b/c", "+/#"),
        ("$SYS/a", "$SYS/#"),
        ("$SYS", "$SYS/#"),
        ("$SYS/a", "$SYS/+"),
        ("a/$SYS", "+/+"),  # only the first level is special
        ("a/$SYS", "a/#"),
        ("A", "A"),
        ("ä/😀", "+/😀"),
        ("a b", "a b"),
    ],
)
def test_a_filter_matches(topic: str, topic_filter: str) -> None:
    assert topic_matches(topic, topic_filter)
    assert matches(topic, topic_filter)


@pytest.mark.parametrize(
    ("topic", "topic_filter"),
    [
        ("a", "A"),
        ("a", "a/+"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/b", "+"),
        ("a/b/c", "a/+"),
        ("/a", "+"),
        ("/a", "a"),
        ("a", "/a"),
        ("a/", "a"),
        ("a", "a/"),
        ("a//b", "a/b"),
        ("ab/c", "a/#"),
        ("$SYS/a", "#"),
        ("$SYS/a", "+/a"),
        ("$SYS", "+"),
        ("$SYS", "#"),
        ("$", "#"),
        ("SYS/a", "$SYS/#"),
        ("a", "a/b/#"),
        ("", "a"),
    ],
)
def test_a_filter_does_not_match(topic: str, topic_filter: str) -> None:
    assert not topic_matches(topic, topic_filter)
    assert not matches(topic, topic_filter)


@given(topic=topic_names(), topic_filter=topic_filters())
def test_matching_agrees_with_its_definition(topic: str, topic_filter: str) -> None:
    assert topic_matches(topic, topic_filter) == matches(topic, topic_filter)


@given(topic=topic_names())
def test_a_name_matches_itself_and_a_filter_without_wildcards_nothing_else(topic: str) -> None:
    assert topic_name_fault(topic, LEVELS_MAX) is None
    assert topic_filter_fault(topic, LEVELS_MAX) is None
    assert topic_matches(topic, topic)
    assert not has_wildcard(topic)
    assert not topic_matches(topic + "/x", topic)


@given(topic_filter=topic_filters())
def test_generated_filters_are_valid(topic_filter: str) -> None:
    assert topic_filter_fault(topic_filter, LEVELS_MAX) is None
    assert has_wildcard(topic_filter) == ("+" in topic_filter or "#" in topic_filter)


@pytest.mark.parametrize("topic", ["a", "/", "a/b", " ", "$SYS", "ä", "a" * 65_535, "/" * 127, "\U0010ffff"])
def test_valid_topic_names(topic: str) -> None:
    assert topic_name_fault(topic, LEVELS_MAX) is None


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("", "is empty"),
        ("+", "holds a wildcard"),
        ("a/#", "holds a wildcard"),
        ("a+b", "holds a wildcard"),
        ("a\0b", r"holds U\+0000"),
        ("/" * 128, "has 129 levels; at most 128 are allowed"),
    ],
)
def test_invalid_topic_names(topic: str, fault: str) -> None:
    found = topic_name_fault(topic, LEVELS_MAX)
    assert found is not None
    assert found.endswith(fault.replace("\\", ""))


@pytest.mark.parametrize(
    "topic_filter",
    ["a", "+", "#", "/", "/#", "+/#", "+/+/+", "a/+/b", "a//#", "$SYS/#", "$share", "/" * 127, "a" * 65_535],
)
def test_valid_topic_filters(topic_filter: str) -> None:
    assert topic_filter_fault(topic_filter, LEVELS_MAX) is None


@pytest.mark.parametrize(
    ("topic_filter", "fault"),
    [
        ("", "is empty"),
        ("#/a", "'#' must stand alone and last"),
        ("a/#/b", "'#' must stand alone and last"),
        ("a#", "'#' must stand alone and last"),
        ("a/b#", "'#' must stand alone and last"),
        ("##", "'#' must stand alone and last"),
        ("a+", "'+' must stand alone in its level"),
        ("+a/b", "'+' must stand alone in its level"),
        ("++", "'+' must stand alone in its level"),
        ("+#", "must stand alone"),
        ("a\0", "holds U+0000"),
        ("/" * 128, "has 129 levels; at most 128 are allowed"),
    ],
)
def test_invalid_topic_filters(topic_filter: str, fault: str) -> None:
    found = topic_filter_fault(topic_filter, LEVELS_MAX)
    assert found is not None
    assert fault in found
