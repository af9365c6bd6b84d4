"""The trie against a naive matcher; and that it stands as if only the filters that are left had ever been added."""

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.broker.subscription import FilterEntry, Subscriber, Subscription
from heliograph.broker.trie import TopicTrie, TrieNode, filter_matches
from support.cases import cases
from support.forms import examples
from support.naive import matches
from support.strategies import topic_filters, topic_names

# Few levels and many of them, so that filters share long ways, part everywhere, and end where others go on.
LEVELS = st.sampled_from(["a", "b", "", "$s"])


@st.composite
def long_filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(LEVELS | st.just("+"), max_size=9))
    if draw(st.booleans()):
        levels.append("#")
    topic_filter = "/".join(levels)
    return topic_filter if "+" in topic_filter or "#" in topic_filter else f"{topic_filter}/+"


long_names = st.lists(LEVELS, min_size=1, max_size=10).map("/".join).filter(bool)


def held(trie: TopicTrie, topic_filter: str) -> FilterEntry:
    """Obtain an entry as the router does: with a subscription."""
    entry = trie.obtain(topic_filter)
    if entry.is_empty():
        entry.add(Subscription(Subscriber("c"), topic_filter, 0, False, False, 0, 0))
    return entry


def shape(branch: TrieNode | FilterEntry | None) -> object:
    """Everything below a branch, as a value that compares."""
    if branch is None:
        return None
    if isinstance(branch, FilterEntry):
        return (branch.topic_filter, branch.tail_at)
    ends = [None if entry is None else entry.topic_filter for entry in (branch.entry, branch.hash_entry)]
    children = {level: shape(below) for level, below in (branch.children or {}).items()}
    return (branch.path, children, shape(branch.plus), ends)


def nodes_below(branch: TrieNode | FilterEntry | None) -> int:
    """How many nodes there are; each must part at least two filters."""
    if not isinstance(branch, TrieNode):
        return 0
    below = [*(branch.children or {}).values(), branch.plus]
    parted = sum(one is not None for one in [*below, branch.entry, branch.hash_entry])
    assert parted >= 2
    return 1 + sum(map(nodes_below, below))


def nodes_count(trie: TopicTrie) -> int:
    root = trie.root
    return sum(map(nodes_below, [*(root.children or {}).values(), root.plus]))


def made_of(filters: set[str]) -> TopicTrie:
    trie = TopicTrie()
    for topic_filter in sorted(filters):
        held(trie, topic_filter)
    return trie


@settings(max_examples=examples(150))
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "add", "remove", "match"]), long_filters(), long_names, st.integers(0, 30)),
        max_size=50,
    )
)
def test_any_interleaving_agrees_with_the_naive_matcher_and_leaves_no_trace(
    steps: list[tuple[str, str, str, int]],
) -> None:
    trie = TopicTrie()
    filters: dict[str, FilterEntry] = {}
    for what, topic_filter, topic, number in steps:
        if what == "add":
            entry = held(trie, topic_filter)
            assert filters.setdefault(topic_filter, entry) is entry
        elif what == "remove" and filters:
            gone = sorted(filters)[number % len(filters)]
            del filters[gone]
            trie.remove(gone)
        else:
            found = [entry.topic_filter for entry in trie.match(topic)]
            assert sorted(found) == sorted(one for one in filters if matches(topic, one))
        assert trie.find(topic_filter) is filters.get(topic_filter)
    assert trie.count == len(filters)
    assert shape(trie.root) == shape(made_of(set(filters)).root)
    assert nodes_count(trie) < max(len(filters), 1)
    for topic_filter in filters:
        trie.remove(topic_filter)
    assert trie.root.is_empty()
    assert trie.count == 0


@given(topic_filter=topic_filters() | long_filters(), topic=topic_names() | long_names)
def test_one_filter_against_one_topic(topic_filter: str, topic: str) -> None:
    assert filter_matches(topic_filter, topic.split("/")) == matches(topic, topic_filter)


@cases("levels_count", [128, 60_000])
def test_filters_of_many_levels_cost_no_nodes_of_their_own(levels_count: int) -> None:
    way = "/".join(["+"] * (levels_count - 1))
    filters = {f"{way}/{number}" for number in range(50)} | {f"{number}/{way}" for number in range(50)} | {f"{way}/#"}
    trie = made_of(filters)
    assert nodes_count(trie) < 4
    topic = "/".join(["7"] * levels_count)
    assert {entry.topic_filter for entry in trie.match(topic)} == {f"{way}/7", f"7/{way}", f"{way}/#"}
    for topic_filter in filters:
        trie.remove(topic_filter)
    assert trie.root.is_empty()


def test_a_match_visits_what_matches_or_nearly_does() -> None:
    trie = TopicTrie()
    for number in range(2000):
        held(trie, f"device/{number}/+/#")
        held(trie, f"+/{number}/state")
    assert {entry.topic_filter for entry in trie.match("device/7/state")} == {"device/7/+/#", "+/7/state"}
    assert trie.visited <= 10


def test_a_topic_that_every_branch_nearly_matches_costs_no_more_than_there_are_filters() -> None:
    trie = TopicTrie()
    depth = 10
    for number in range(2**depth):
        held(trie, "/".join("a" if number >> level & 1 else "+" for level in range(depth)) + "/end/#")
    assert trie.match("/".join("a" * depth) + "/x") == []
    assert trie.visited <= 4 * 2**depth
