"""The learned topic structure: what it learns, that it is the same after a restart, that no filter misses a topic."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.mqtt.topic import topic_matches
from heliograph.storage.columnar.catalog import Generation
from heliograph.storage.interface import ColumnarOptions, GenerationInfo
from heliograph.storage.topic_filter import TopicFilter
from heliograph.storage.topic_structure import Placement, TopicStructure
from storage.topics import filters_over, topics_over

LEVELS = st.sampled_from(["", "a", "b", "c", "d", "e", "$x"])
TOPICS = topics_over(LEVELS)
FILTERS = filters_over(LEVELS)
THRESHOLDS = st.lists(st.integers(1, 3), min_size=1, max_size=3)


NODES = st.sampled_from([1, 3, 6, 1000])
OWN = st.sampled_from([None, 1, 3])


def reloaded(structure: TopicStructure, copy: TopicStructure) -> TopicStructure:
    """As a restart reads it from its records."""
    for node in structure.new_nodes:
        assert node.parent is not None
        copy.load_node(node.number, node.parent.number, node.level)
    for node in structure.new_streams:
        assert node.stream is not None
        copy.load_stream(node.stream, node.number)
    return copy


def test_a_level_with_many_names_becomes_a_wildcard() -> None:
    structure = TopicStructure([100, 2])
    placements = {topic: structure.place(topic) for topic in (f"weather/{name}/obs" for name in "abcde")}
    assert [structure.topics_of(number) for number in range(1, structure.stream_count + 1)] == [
        "weather/a/obs",
        "weather/b/obs",
        "weather/+/obs",
    ]
    assert placements["weather/a/obs"].topic_hash == b""
    assert placements["weather/c/obs"].stream == placements["weather/e/obs"].stream == 3
    assert placements["weather/c/obs"].topic_hash != placements["weather/e/obs"].topic_hash


def test_a_million_device_topics_are_few_streams() -> None:
    structure = TopicStructure([100, 10])
    streams = {structure.place(f"fleet/{region}/device-{n}/state").stream for region in range(3) for n in range(2_000)}
    assert len(streams) == 3 * 11


SHAPES = {
    "site": lambda n: f"site-{n % 50}/device-{n // 150}/telemetry/{('t', 'p', 'rh')[n // 50 % 3]}",
    "tenant": lambda n: f"v1/tenant-{n % 200}/{('up', 'down', 'state', 'cmd')[n // 200 % 4]}/{n // 800}",
    "sparkplug": lambda n: (
        f"spBv1.0/group-{n % 20}/{('NBIRTH', 'NDATA', 'DBIRTH', 'DDATA')[n // 20 % 4]}"
        f"/edge-{n // 80 % 100}/device-{n // 8000}"
    ),
    "device": lambda n: f"device/{n}/state",
}


# What there is to learn of these is learned from the first ten thousand.
@pytest.mark.slow
@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", SHAPES)
def test_topics_of_common_shapes_are_a_few_dozen_streams_however_many_there_are(shape: str, count: int) -> None:
    # The structure of a database with the default thresholds.
    structure = Generation(
        GenerationInfo(0, 1, "columnar", 1, 0, None), ColumnarOptions().wildcard_thresholds
    ).structure
    topics = map(SHAPES[shape], range(count))
    for topic in topics:
        structure.place(topic)
    assert structure.stream_count <= 84
    assert structure.node_count <= 250


def test_as_many_streams_as_the_last_threshold_says_have_names() -> None:
    structure = Generation(GenerationInfo(0, 1, "columnar", 1, 0, None), (1000,)).structure
    assert len({structure.place(f"topic-{n}").stream for n in range(1000)}) == 1000


def test_a_topic_that_ends_where_others_go_on_has_its_own_stream() -> None:
    structure = TopicStructure([10])
    assert structure.place("a/b").stream != structure.place("a").stream


def test_a_filter_that_fixes_the_varying_levels_finds_one_hash() -> None:
    structure = TopicStructure([1])
    structure.place("a/x")
    structure.place("b/y")
    placement = structure.place("c/z")
    assert structure.topics_of(placement.stream) == "+/+"
    by_filter = {text: structure.match(TopicFilter(text), placement.stream) for text in ("c/z", "c/+", "#", "+/z", "c")}
    fixed, one_wild, everything, first_wild, shorter = by_filter.values()
    assert fixed is not None
    assert fixed.topic_hash == placement.topic_hash
    assert one_wild is not None
    assert one_wild.topic_hash is None
    assert everything is not None
    assert everything.topic_hash is None
    assert first_wild is not None
    assert not first_wild.covered
    assert shorter is None


@settings(deadline=None)
@given(st.lists(TOPICS, max_size=40), st.lists(TOPICS, max_size=10), THRESHOLDS, NODES, OWN)
def test_is_the_same_after_a_restart(
    before: list[str], after: list[str], thresholds: list[int], nodes_max: int, own_streams: int | None
) -> None:
    structure = TopicStructure(thresholds, nodes_max, own_streams)
    placed = [structure.place(topic) for topic in before]
    copy = reloaded(structure, TopicStructure(thresholds, nodes_max, own_streams))
    assert [copy.place(topic) for topic in before] == placed
    assert not copy.new_nodes
    assert not copy.new_streams
    assert [copy.place(topic) for topic in after] == [structure.place(topic) for topic in after]


@settings(deadline=None)
@given(st.lists(TOPICS, min_size=1, max_size=30), FILTERS, THRESHOLDS, NODES, OWN)
def test_no_filter_misses_a_topic(
    topics: list[str], text: str, thresholds: list[int], nodes_max: int, own_streams: int | None
) -> None:
    structure = TopicStructure(thresholds, nodes_max, own_streams)
    placements: dict[str, Placement] = {}
    for topic in topics:
        placement = structure.place(topic)
        assert placements.setdefault(topic, placement) == placement
    topic_filter = TopicFilter(text)
    matches = {match.stream: match for match in structure.streams(topic_filter)}
    for topic, placement in placements.items():
        match = matches.get(placement.stream)
        if topic_matches(topic, text):
            assert match is not None
            assert match.topic_hash in (None, placement.topic_hash)
        else:
            assert match is None or not match.covered
        assert match is None or structure.match(topic_filter, placement.stream) == match


def test_what_is_learned_is_bounded_whatever_the_topics_are() -> None:
    structure = TopicStructure([100, 10], nodes_max=1000)
    rest = "/".join("7" * 128)
    streams = {
        structure.place("/".join(str(n % 7 + level % (n % 9 + 1)) for level in range(128))).stream for n in range(500)
    }
    assert structure.node_count <= 1000 + 128 + 1
    placement = structure.place(rest)
    assert structure.topics_of(placement.stream) == "#"
    assert placement.stream in streams
    exact = structure.match(TopicFilter(rest), placement.stream)
    assert exact is not None
    assert exact.topic_hash == placement.topic_hash


def test_names_that_are_too_long_are_not_learned() -> None:
    structure = TopicStructure([100])
    placement = structure.place("a/" + "x" * 60_000)
    assert structure.topics_of(placement.stream) == "#"
    assert structure.topics_of(structure.place("a/b").stream) == "a/b"
    assert structure.node_count == 4
