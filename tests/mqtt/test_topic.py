from hypothesis import given

from heliograph.mqtt.topic import (
    bare_filter,
    filter_covers,
    has_wildcard,
    split_share,
    subscription_fault,
    topic_filter_fault,
    topic_matches,
    topic_name_fault,
    without_delay,
)
from support.cases import cases
from support.naive import matches
from support.strategies import topic_filters, topic_names

LEVELS_MAX = 128


@cases(
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


@cases(
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


@cases("topic", ["a", "/", "a/b", " ", "$SYS", "ä", "a" * 65_535, "/" * 127, "\U0010ffff"])
def test_valid_topic_names(topic: str) -> None:
    assert topic_name_fault(topic, LEVELS_MAX) is None


@cases(
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


@cases(
    "topic_filter",
    ["a", "+", "#", "/", "/#", "+/#", "+/+/+", "a/+/b", "a//#", "$SYS/#", "$share", "/" * 127, "a" * 65_535],
)
def test_valid_topic_filters(topic_filter: str) -> None:
    assert topic_filter_fault(topic_filter, LEVELS_MAX) is None


@cases(
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


# --- filters as a SUBSCRIBE carries them


@cases(
    ("topic_filter", "group", "bare"),
    [
        ("a/+", "", "a/+"),
        ("$share/g/a/+", "g", "a/+"),
        ("$share/g//", "g", "/"),
        ("$share/g//a", "g", "/a"),
        ("$share/g/#", "g", "#"),
        ("$share/g/$SYS/#", "g", "$SYS/#"),
        ("$share/ä b/t", "ä b", "t"),
        ("$share/$queue/t", "$queue", "t"),
        ("$queue/t", "$queue", "t"),
        ("$queue//", "$queue", "/"),
        ("$exclusive/t", "", "t"),
        # without their slash these are names like others
        ("$share", "", "$share"),
        ("$queue", "", "$queue"),
        ("$exclusive", "", "$exclusive"),
        ("$shared/g/t", "", "$shared/g/t"),
        ("$SHARE/g/t", "", "$SHARE/g/t"),
        ("a/$share/g/t", "", "a/$share/g/t"),
    ],
)
def test_a_subscription_falls_into_group_and_filter(topic_filter: str, group: str, bare: str) -> None:
    assert subscription_fault(topic_filter, LEVELS_MAX) is None
    assert split_share(topic_filter)[0] == group
    assert bare_filter(topic_filter) == bare
    if not topic_filter.startswith("$exclusive/"):
        assert split_share(topic_filter) == (group, bare)


@cases(
    ("topic_filter", "fault"),
    [
        ("", "is empty"),
        ("$share/", "no '/' and topic filter follow the group"),
        ("$share/g", "no '/' and topic filter follow the group"),
        ("$share/g/", "no topic filter follows the prefix"),
        ("$share//t", "the group is empty"),
        ("$share//", "the group is empty"),
        ("$share/+/t", "the group '+' holds a wildcard"),
        ("$share/#/t", "the group '#' holds a wildcard"),
        ("$share/a+b/t", "the group 'a+b' holds a wildcard"),
        ("$share/a\0b/t", "holds U+0000"),
        ("$share/g/a/#/b", "'#' must stand alone and last"),
        ("$share/g/a+", "'+' must stand alone in its level"),
        ("$share/g/" + "/" * 128, "has 129 levels; at most 128 are allowed"),
        ("$share/g/$share/h/t", "a second prefix follows the first"),
        ("$share/g/$queue/t", "a second prefix follows the first"),
        ("$queue/$queue/t", "a second prefix follows the first"),
        ("$queue/$share/g/t", "a second prefix follows the first"),
        ("$exclusive/$share/g/t", "a second prefix follows the first"),
        ("$share/g/$exclusive/t", "a second prefix follows the first"),
        ("$queue/", "no topic filter follows the prefix"),
        ("$exclusive/", "no topic filter follows the prefix"),
        ("$exclusive/a#", "'#' must stand alone and last"),
    ],
)
def test_invalid_subscriptions(topic_filter: str, fault: str) -> None:
    found = subscription_fault(topic_filter, LEVELS_MAX)
    assert found is not None
    assert fault in found


def test_the_levels_of_a_prefix_are_not_counted() -> None:
    assert subscription_fault("$share/g/" + "/" * 127, LEVELS_MAX) is None


@given(topic_filter=topic_filters())
def test_a_prefix_changes_nothing_about_the_filter_behind_it(topic_filter: str) -> None:
    for prefix, group in (("$share/g/", "g"), ("$queue/", "$queue"), ("", "")):
        if not topic_filter.startswith(("$share/", "$queue/", "$exclusive/")):
            assert subscription_fault(prefix + topic_filter, LEVELS_MAX) is None
            assert split_share(prefix + topic_filter) == (group, topic_filter)


def test_a_fault_shows_only_the_beginning_of_a_long_topic() -> None:
    for found in (
        topic_name_fault("a" * 60_000 + "#", LEVELS_MAX),
        topic_filter_fault("a" * 60_000 + "#", LEVELS_MAX),
        subscription_fault("$share/" + "a" * 60_000 + "#/t", LEVELS_MAX),
    ):
        assert found is not None
        assert len(found) < 300


def test_sixty_thousand_levels_are_looked_at_once() -> None:
    topic, topic_filter = "/" * 60_000, "+/" * 60_000 + "#"
    assert topic_filter_fault(topic_filter, 65_536) is None
    assert topic_matches(topic, topic_filter)
    assert not topic_matches(topic + "a", "+/" * 60_000 + "b")


@cases(
    ("topic", "meant"),
    [
        ("t", "t"),
        ("$delayed/5/t/u", "t/u"),
        ("$delayed/x/t", "t"),
        ("$delayed/5/$delayed/6/t", "t"),
        ("$delayed/5", "$delayed/5"),
        ("$delayed/5/$delayed/6", "$delayed/6"),
        ("$delayed//t", "t"),
        ("$delayed", "$delayed"),
        ("a/$delayed/5/t", "a/$delayed/5/t"),
        ("$delayed/1/" * 5_000 + "t", "t"),
    ],
)
def test_what_a_delayed_topic_is_for(topic: str, meant: str) -> None:
    assert without_delay(topic) == meant


@cases(
    ("wide", "narrow"),
    [
        ("#", "a"),
        ("#", "a/#"),
        ("#", "+/+"),
        ("#", "#"),
        ("a/#", "a"),
        ("a/#", "a/#"),
        ("a/#", "a/+/c"),
        ("a/+", "a/b"),
        ("a/+", "a/+"),
        ("+/+", "a/b"),
        ("+/#", "a/b/#"),
        ("$SYS/#", "$SYS/+/a"),
        ("a", "a"),
    ],
)
def test_a_filter_covers_another(wide: str, narrow: str) -> None:
    assert filter_covers(wide, narrow)


@cases(
    ("wide", "narrow"),
    [
        ("#", "$SYS/a"),
        ("+/a", "$SYS/a"),
        ("a/#", "#"),
        ("a/#", "+/b"),
        ("a/+", "a/#"),
        ("a/+", "a"),
        ("a/+", "a/b/c"),
        ("+", "#"),
        ("a", "+"),
        ("a/b", "a"),
    ],
)
def test_a_filter_does_not_cover_another(wide: str, narrow: str) -> None:
    assert not filter_covers(wide, narrow)


@given(topic_filters(), topic_filters(), topic_names())
def test_what_a_covered_filter_matches_the_other_matches(wide: str, narrow: str, topic: str) -> None:
    if filter_covers(wide, narrow) and topic_matches(topic, narrow):
        assert topic_matches(topic, wide)
