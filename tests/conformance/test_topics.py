"""Section 4.7: topic names and topic filters."""

from dataclasses import replace

from conformance.dialogue import V5, World, both_versions
from conformance.statements import proves
from heliograph.mqtt import packets as p
from support.cases import cases
from support.options import CHANNEL, LISTENER

ROOMY = replace(CHANNEL, max_topic_levels=65_535)


def is_granted(world: World, topic_filter: str) -> bool:
    """Whether a new client may subscribe to a filter."""
    client = world.connect("asks")
    client.says(f'82 # 0001 {{}} "{topic_filter}" 01')
    if client.is_closed():
        return False
    (suback,) = client.packets()
    assert isinstance(suback, p.Suback)
    return suback.codes == [1]


def receives(world: World, topic_filter: str, topic: str) -> bool:
    """Whether a subscriber of a filter gets what is published to a topic."""
    client = world.subscriber(topic_filter, 0, "listens")
    world.connect("speaks").says(f"30 # \"{topic}\" {{}} 'x'")
    heard = client.heard()
    client.says("e0 #")
    return heard != b""


@both_versions
@cases("topic_filter", ["#", "a/#", "/#", "+", "+/+", "/+", "a/+/b/#", "+/#", "/", "a b", "$SYS/#", "ä/+"])
@proves("MQTT-4.7.1-1", "MQTT-4.7.1-2", "3.1.1 MQTT-4.7.1-2", "3.1.1 MQTT-4.7.1-3")
def test_filters_that_are_valid(version: int, topic_filter: str) -> None:
    assert is_granted(World(version), topic_filter)


@both_versions
@cases("topic_filter", ["a#", "#a", "a/#/b", "##", "#/", "a/b#", "+#", "a/#+"])
@proves("MQTT-4.7.1-1", "3.1.1 MQTT-4.7.1-2")
def test_a_hash_stands_alone_and_last(version: int, topic_filter: str) -> None:
    assert not is_granted(World(version), topic_filter)


@both_versions
@cases("topic_filter", ["a+", "+a", "a/b+/c", "++", "a/+b", "/a+"])
@proves("MQTT-4.7.1-2", "3.1.1 MQTT-4.7.1-3")
def test_a_plus_stands_alone(version: int, topic_filter: str) -> None:
    assert not is_granted(World(version), topic_filter)


@both_versions
@proves("MQTT-4.7.3-1", "3.1.1 MQTT-4.7.3-1")
def test_a_filter_has_at_least_one_character(version: int) -> None:
    assert not is_granted(World(version), "")


@both_versions
@cases("topic_filter", ["#", "+/a", "+/#", "+"])
@cases("topic", ["$SYS/a", "$", "$a/a"])
@proves("MQTT-4.7.2-1", "3.1.1 MQTT-4.7.2-1")
def test_wildcards_at_the_beginning_pass_over_dollar_topics(version: int, topic_filter: str, topic: str) -> None:
    assert not receives(World(version), topic_filter, topic)


@both_versions
@proves("MQTT-4.7.2-1", "3.1.1 MQTT-4.7.2-1")
def test_a_mountpoint_does_not_hide_what_a_dollar_topic_is(version: int) -> None:
    """What counts is the name and the filter that the client knows."""
    world = World(version, replace(CHANNEL, listener=replace(LISTENER, mountpoint="devices/")))
    sub, other, pub = world.subscriber("#"), world.subscriber("$a/+", clientid="other"), world.connect("pub")
    pub.says("30 # \"$a/b\" {} 'x'", "31 # \"$a/c\" {} 'y'")
    sub.hears()
    other.hears("30 # \"$a/b\" {} 'x'", "30 # \"$a/c\" {} 'y'")
    late = world.connect("late")
    late.says('82 # 0001 {} "+/c" 00')
    late.hears("90 # 0001 {} 00")


@both_versions
@cases(
    ("topic_filter", "topic"), [("$SYS/#", "$SYS/a"), ("$SYS/+", "$SYS/a"), ("$", "$"), ("a/+", "a/$b"), ("#", "a/$b")]
)
@proves("MQTT-4.7.2-1", "3.1.1 MQTT-4.7.2-1")
def test_dollar_topics_have_their_own_filters(version: int, topic_filter: str, topic: str) -> None:
    assert receives(World(version), topic_filter, topic)


@both_versions
@cases(
    ("topic_filter", "topic", "matches"),
    [
        ("a", "A", False),
        ("/a", "a", False),
        ("a/", "a", False),
        ("a//b", "a/b", False),
        (" a", "a", False),
        ("a", "a", True),
        ("a//b", "a//b", True),
        ("/", "/", True),
        ("ä", "ä", True),
        ("ä", "a\u0308", False),
        ("\u212b", "\u00c5", False),
        ("ﬁ", "fi", False),
        ("a/./b", "a/b", False),
        ("%61", "a", False),
        ("\U0010ffff", "\U0010ffff", True),
    ],
)
@proves("MQTT-4.7.3-4", "3.1.1 MQTT-4.7.3-4")
def test_matching_changes_no_character(version: int, topic_filter: str, topic: str, matches: bool) -> None:
    assert receives(World(version), topic_filter, topic) is matches


@both_versions
@cases("text", ["x" * 65_535, "ä" * 32_767, "x/" * 32_767])
@proves("MQTT-4.7.3-3", "3.1.1 MQTT-4.7.3-3")
def test_names_and_filters_of_65535_bytes(version: int, text: str) -> None:
    assert receives(World(version, ROOMY), text, text)
    assert receives(World(version, ROOMY), "#", text)


@proves("MQTT-4.7.3-3", "3.1.1 MQTT-4.7.3-3")
def test_a_filter_of_65535_bytes_that_is_unsubscribed() -> None:
    client = World(V5, ROOMY).connect()
    client.subscribes("y" * 65_535)
    client.says(f'a2 # 0001 {{}} "{"y" * 65_535}"')
    client.hears("b0 # 0001 {} 00")
