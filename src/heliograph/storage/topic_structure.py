"""The learned topic structure: which topics share a stream, for one generation of one shard.

A trie over topic levels. A level under one parent may have as many names as its threshold; a name that comes later
falls to the child `+` of that parent, which stands for any number of names. So a few fixed words keep their own
streams, while a level with device names becomes one stream for all devices. Nothing is ever forgotten or moved: a
name that is there once stays, so a topic has one stream for the whole generation and its order is safe. The structure
depends only on the order in which topics first appeared, and every addition is written with the first block that needs
it, so it is the same after a restart.

Levels multiply: fifty sites of ten devices of ten names would be thousands of streams. So names are given only while
streams are few; with `OWN_STREAMS` of them, a level gets its `+` with the next new name, so that few more can come.

What is learned is bounded all the same, since 128 levels need no streams to be many.
When there are `NODES_MAX` nodes, a topic that would need another goes to one last stream, `#`, and so does a topic that
is too long for its names to be worth remembering. There it is found by the hash of all its levels.

This module knows the trie; `keys` knows how its records are kept and `columnar` when they are written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from heliograph.storage.topic_filter import TopicFilter

ROOT: Final = 0
ANY: Final = "+"
REST: Final = "#"  # the stream of all topics that the structure has no room for
NODES_MAX: Final = 65_536  # 30 MB, read in 0.3 s at the start
OWN_STREAMS: Final = 24  # as many need no index; further ones cost every reader of a wildcard more than they save
LEARNED_LENGTH_MAX: Final = 1024
HASH_BYTES: Final = 8


@dataclass(slots=True)
class TopicLevel:
    """One level of the structure: the levels below it, and the stream of the topics that end here."""

    number: int
    level: str
    depth: int
    parent: "TopicLevel | None"
    children: "dict[str, TopicLevel]"
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a topic goes: its stream, and the hash of its varying levels (empty if the structure fixes them all)."""

    stream: int
    topic_hash: bytes


@dataclass(frozen=True, slots=True)
class StreamMatch:
    """A stream that a filter can find messages in.

    Attributes:
        topic_hash: The only hash that can match, if the filter fixes every varying level; else None.
        covered: Whether every topic of the stream matches, so that rows need no look.
    """

    stream: int
    topics: str
    topic_hash: bytes | None
    covered: bool


class TopicStructure:
    """The trie of one generation of one shard. Lives as long as the generation is read or written; owned by what
    loaded it.

    Args:
        thresholds: How many names each level may have; the last counts for all deeper levels.
        nodes_max: With so many nodes it stops learning; the path that is being learned then is finished.
        own_streams: With so many streams no further name is learned; None for no such limit.
    """

    def __init__(self, thresholds: Sequence[int], nodes_max: int = NODES_MAX, own_streams: int | None = None) -> None:
        self._nodes_max = nodes_max
        self._own_streams = own_streams
        self._rest: TopicLevel | None = None  # not among the root's children: it is no name
        self._thresholds = tuple(thresholds)
        self._root = TopicLevel(ROOT, "", 0, None, {})
        self._nodes = [self._root]
        self._streams: list[TopicLevel] = []
        self.new_nodes: list[TopicLevel] = []
        self.new_streams: list[TopicLevel] = []

    @property
    def node_count(self) -> int:
        """How many nodes there are, the root included; the next node gets this number."""
        return len(self._nodes)

    @property
    def stream_count(self) -> int:
        """How many streams there are; streams are numbered from 1."""
        return len(self._streams)

    def load_node(self, number: int, parent: int, level: str) -> None:
        """Take a node that was written before; nodes come in the order of their numbers."""
        if number != len(self._nodes) or parent >= number:
            raise ValueError(f"topic level {number} does not follow {len(self._nodes) - 1}")
        self._attach(self._nodes[parent], level)

    def load_stream(self, number: int, node: int) -> None:
        """Take a stream that was written before; streams come in the order of their numbers."""
        if number != len(self._streams) + 1 or node >= len(self._nodes):
            raise ValueError(f"stream {number} does not follow {len(self._streams)}")
        self._nodes[node].stream = number
        self._streams.append(self._nodes[node])

    def place(self, topic: str) -> Placement:
        """Where a topic goes, learning it if it is new; what was learned is added to `new_nodes`, `new_streams`."""
        if len(topic) > LEARNED_LENGTH_MAX:
            return self._place_in_rest(topic)
        node = self._root
        varying: list[str] = []
        may_learn = len(self._nodes) < self._nodes_max
        for level in topic.split("/"):
            child = node.children.get(level) or node.children.get(ANY)
            if child is None:
                if not may_learn:
                    return self._place_in_rest(topic)
                child = self._learn(node, level)
            if child.level == ANY:
                varying.append(level)
            node = child
        return Placement(self._stream_of(node), hash_of(varying) if varying else b"")

    def find(self, topic: str) -> int | None:
        """The stream that a topic has, or would share, without learning it; None if it needs a new one."""
        rest = None if self._rest is None else self._rest.stream
        if len(topic) > LEARNED_LENGTH_MAX:
            return rest
        node = self._root
        for level in topic.split("/"):
            child = node.children.get(level) or node.children.get(ANY)
            if child is None:
                return rest if len(self._nodes) >= self._nodes_max else None
            node = child
        return node.stream

    def unwritten_behind(self, node_count: int, stream_count: int) -> None:
        """Only so many levels and streams are on disk; the others are to be written again."""
        self.new_nodes = self._nodes[max(node_count, 1) :]
        self.new_streams = self._streams[stream_count:]

    def written(self) -> None:
        self.new_nodes.clear()
        self.new_streams.clear()

    def topics_of(self, stream: int) -> str | None:
        """The structure of a stream as text, or None if there is no such stream."""
        if not 1 <= stream <= len(self._streams):
            return None
        return _text(self._streams[stream - 1])

    def level_at(self, levels: Sequence[str], *, takes_any: bool = False) -> TopicLevel | None:
        """The level that some names lead to, or None if there is none.

        Args:
            levels: The names from the root on; `[REST]` leads to that of topics that there was no room to learn.
            takes_any: Whether `+` stands for names that were not learned.
        """
        if self._rest is not None and list(levels) == [REST]:
            return self._rest
        node = self._root
        for level in levels:
            child = node.children.get(level) or (node.children.get(ANY) if takes_any else None)
            if child is None:
                return None
            node = child
        return node

    def match(self, topic_filter: TopicFilter, stream: int) -> StreamMatch | None:
        """How a filter meets one stream, or None if it cannot find anything there."""
        if not 1 <= stream <= len(self._streams):
            return None
        levels = _levels(self._streams[stream - 1])
        return _match(levels, stream, topic_filter)

    def streams(self, topic_filter: TopicFilter) -> list[StreamMatch]:
        """The streams that a filter can find messages in, by number."""
        found: list[StreamMatch] = []
        rest = [] if self._rest is None else [self._rest]
        for node in self._reachable(topic_filter.levels) + rest:
            if node.stream is not None:
                match = _match(_levels(node), node.stream, topic_filter)
                if match is not None:
                    found.append(match)
        return sorted(found, key=lambda match: match.stream)

    def _place_in_rest(self, topic: str) -> Placement:
        if self._rest is None:
            self.new_nodes.append(self._attach(self._root, REST))
        assert self._rest is not None
        return Placement(self._stream_of(self._rest), hash_of([topic]))

    def _stream_of(self, node: TopicLevel) -> int:
        if node.stream is None:
            self._streams.append(node)
            node.stream = len(self._streams)
            self.new_streams.append(node)
        return node.stream

    def _learn(self, node: TopicLevel, level: str) -> TopicLevel:
        threshold = self._thresholds[min(node.depth, len(self._thresholds) - 1)]
        gives_names = self._own_streams is None or len(self._streams) < self._own_streams
        child = self._attach(node, level if gives_names and len(node.children) < threshold else ANY)
        self.new_nodes.append(child)
        return child

    def _attach(self, parent: TopicLevel, level: str) -> TopicLevel:
        child = TopicLevel(len(self._nodes), level, parent.depth + 1, parent, {})
        if level == REST:
            self._rest = child
        else:
            parent.children[level] = child
        self._nodes.append(child)
        return child

    def _reachable(self, levels: Sequence[str]) -> list[TopicLevel]:
        """The nodes at which topics of a filter can end."""
        nodes = [self._root]
        for level in levels:
            if level == "#":
                return _with_descendants(nodes)
            if level == ANY:
                nodes = [child for node in nodes for child in node.children.values()]
            else:
                # A name of its own never stands under '+' of the same parent, so the two exclude each other.
                nodes = [child for node in nodes if (child := node.children.get(level) or node.children.get(ANY))]
        return nodes

    def __repr__(self) -> str:
        return f"TopicStructure({self.stream_count} streams, {self.node_count} nodes)"


def hash_of(varying: Sequence[str]) -> bytes:
    """The hash of a topic's varying levels; part of the key format."""
    return blake2b("/".join(varying).encode(), digest_size=HASH_BYTES).digest()


def _match(structure: Sequence[str], stream: int, topic_filter: TopicFilter) -> StreamMatch | None:
    if structure == [REST]:
        fixed = ANY not in topic_filter.levels and REST not in topic_filter.levels
        return StreamMatch(stream, REST, hash_of(topic_filter.levels) if fixed else None, False)
    open_end = topic_filter.levels[-1] == "#"
    levels = topic_filter.levels[:-1] if open_end else topic_filter.levels
    if len(structure) < len(levels) or (len(structure) > len(levels) and not open_end):
        return None
    fixed = ANY not in structure[len(levels) :]
    covered = True
    varying: list[str] = []
    for name, level in zip(structure, levels, strict=False):
        if name == ANY and level == ANY:
            fixed = False
        elif name == ANY:
            covered = False
            varying.append(level)
        elif level not in (ANY, name):
            return None
    if not levels or levels[0] == ANY:  # a wildcard at the first level does not match names that begin with '$'
        if structure[0].startswith("$"):
            return None
        covered = covered and structure[0] != ANY
    topic_hash = hash_of(varying) if fixed and varying else None
    return StreamMatch(stream, "/".join(structure), topic_hash, covered)


def _with_descendants(nodes: Sequence[TopicLevel]) -> list[TopicLevel]:
    found = []
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(node.children.values())
    return found


def _levels(node: TopicLevel) -> list[str]:
    levels: list[str] = []
    walk: TopicLevel | None = node
    while walk is not None and walk.parent is not None:
        levels.append(walk.level)
        walk = walk.parent
    return levels[::-1]


def _text(node: TopicLevel) -> str:
    return "/".join(_levels(node))
