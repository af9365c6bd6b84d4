"""Which stream of a keyed database a topic is in, and which streams a filter can find something in."""

from array import array
from collections.abc import Sequence

from heliograph.storage.engine import Rdict, WriteBatch, records
from heliograph.storage.keyed import records as records_of
from heliograph.storage.topic_filter import topic_filter as checked_filter
from heliograph.storage.topic_structure import TopicStructure

_FILTERS_KEPT = 1024


class KeyedTopics:
    """The learned topic structure of one database; owned by it, empty until it is loaded."""

    def __init__(self, name: str, nodes_max: int) -> None:
        self._name = name
        self._nodes_max = nodes_max
        self._structure = TopicStructure((1,), nodes_max)
        self._streams_of: dict[str, array[int]] = {}  # by filter, as long as no stream is added
        self._streams_count = 0
        self.is_loaded = False

    @property
    def stream_count(self) -> int:
        return self._structure.stream_count

    @property
    def level_count(self) -> int:
        return self._structure.node_count - 1

    def load(self, rocks: Rdict, thresholds: tuple[int, ...]) -> None:
        """Read the structure; when it is known already, only see what of it the disk does not have."""
        node_range, stream_range = records_of.structure_ranges()
        nodes = [records_of.read_node(key, value) for key, value in records(rocks, *node_range)]
        streams = [records_of.read_stream(key, value) for key, value in records(rocks, *stream_range)]
        if self.is_loaded:
            self._structure.unwritten_behind(len(nodes) + 1, len(streams))
            return
        structure = TopicStructure(thresholds, self._nodes_max)
        for number, parent, level in nodes:
            structure.load_node(number, parent, level)
        for number, node in streams:
            structure.load_stream(number, node)
        self._structure = structure
        self.is_loaded = True

    def stage(self, batch: WriteBatch) -> None:
        """Put what was learned into a batch; it is written with the first message that needs it."""
        for node in self._structure.new_nodes:
            parent = 0 if node.parent is None else node.parent.number
            batch.put(records_of.node_key(node.number), records_of.node_value(parent, node.level))
        for node in self._structure.new_streams:
            batch.put(records_of.stream_key(node.stream or 0), records_of.stream_value(node.number))

    def written(self) -> None:
        self._structure.written()

    def find(self, topic: str) -> bytes | None:
        """The key of a topic; None if none like it was ever learned."""
        stream = self._structure.find(topic)
        return None if stream is None else records_of.message_key(stream, records_of.levels_of(topic))

    def learn(self, topic: str) -> bytes:
        key = self.find(topic)
        if key is not None:
            return key
        if "\0" in topic:
            raise ValueError(f"{topic[:80]!r} is not a topic name: it holds a null character")
        return records_of.message_key(self._structure.place(topic).stream, records_of.levels_of(topic))

    def streams(self, topic_filter: str) -> Sequence[int]:
        """The streams in which a filter can find something, in order."""
        if self._streams_count != self.stream_count or len(self._streams_of) >= _FILTERS_KEPT:
            self._streams_of.clear()
            self._streams_count = self.stream_count
        streams = self._streams_of.get(topic_filter)
        if streams is None:
            matches = self._structure.streams(checked_filter(topic_filter, self._name))
            streams = self._streams_of[topic_filter] = array("I", [match.stream for match in matches])
        return streams

    def structure_of(self, stream: int) -> str | None:
        """What topics a stream has, such as `weather/+/obs`; None if there is no such stream."""
        return self._structure.topics_of(stream)

    def __repr__(self) -> str:
        return f"KeyedTopics({self._structure})"
