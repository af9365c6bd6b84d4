"""What Sparkplug births say: which metric an alias stands for.

A birth names every metric that an edge node or a device will report, with its data type and mostly with an alias; the
messages of data after it carry the alias only. `Births` is their table; in a broker a callback of `message.publish`
fills that of the node.

A client that may publish births can name edge nodes that do not exist. So the table is full at some size, and then the
edge nodes that have said nothing for the longest time make room: those that live publish all the time.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.schemas.sparkplug import (
    DBIRTH,
    DDEATH,
    NBIRTH,
    NDEATH,
    EdgeTopic,
    data_type_name,
    decode_payload,
    metric_value,
    metrics_of,
)
from heliograph.rules.values import UNDEFINED, Value

_ALIASES_MAX: Final = 1_000_000
_EDGES_MAX: Final = 100_000
_EDGE_ALIASES_MAX: Final = 100_000  # of one edge node and its devices
_EDGE_NAMES_LENGTH_MAX: Final = 16 << 20
_NAME_LENGTH_MAX: Final = 1_000
_COMMANDS: Final = ("NCMD", "DCMD")  # are for an edge node, and not from it
_NAMES_LENGTH_MAX: Final = 128 << 20  # of all that are remembered


@dataclass(frozen=True, slots=True)
class BornMetric:
    name: str
    datatype: Value


class _Edge:
    """What is known of one edge node; the aliases of its devices are filed under their names, its own under None."""

    __slots__ = ("aliases", "count", "names_length", "sequence")

    def __init__(self, sequence: Value) -> None:
        self.sequence = sequence  # of birth and death, by which a death says which birth it ends
        self.aliases: dict[str | None, dict[int, BornMetric]] = {}
        self.count = 0
        self.names_length = 0


class Births:
    """Aliases by edge node and device, each as the last birth has it; bounded. Owned by the environment of rules.

    An edge node that is born again takes the births of its devices back, as its death does. A death that belongs to an
    earlier birth says nothing.

    Args:
        aliases_max: Aliases that are remembered. Where a birth needs more, the edge nodes that were silent longest are
            forgotten; one that says more than a single edge node may is not learned. Both are counted.
    """

    def __init__(self, aliases_max: int = _ALIASES_MAX, edges_max: int = _EDGES_MAX) -> None:
        self.aliases_max = aliases_max
        self.evicted = 0
        self._edges_max = edges_max
        self._edges: OrderedDict[tuple[str, str], _Edge] = OrderedDict()  # the one that was silent longest comes first
        self._count = 0
        self._names_length = 0
        self._refused = 0
        self._malformed = 0

    def limit(self, aliases_max: int) -> None:
        """Remember so many aliases from now on; where there are more, the edge nodes silent longest are forgotten."""
        self.aliases_max = aliases_max
        self._make_room()

    def clear(self) -> None:
        for key in list(self._edges):
            self._forget_edge(key)

    def on_message(self, topic: EdgeTopic, data: bytes) -> None:
        """Learn from a birth, forget by a death; other messages say no more than that their edge node lives."""
        key = (topic.group, topic.edge)
        if key in self._edges and topic.type not in _COMMANDS:
            self._edges.move_to_end(key)
        if topic.type not in (NBIRTH, NDEATH, DBIRTH, DDEATH):
            return
        if topic.type == DDEATH:
            self._forget_device(key, topic.device)
            return
        try:
            metrics = metrics_of(decode_payload(data))
        except SchemaError:
            self._malformed += 1
            return
        if topic.type == NDEATH:
            self._on_death(topic, _sequence(metrics))
        else:
            self._on_birth(topic, metrics)

    def find(self, topic: EdgeTopic, alias: Value) -> BornMetric | None:
        edge = self._edges.get((topic.group, topic.edge))
        if edge is None or type(alias) is not int:
            return None
        return edge.aliases.get(topic.device, {}).get(alias)

    def metrics(self, topic: EdgeTopic | None, data: bytes) -> list[Value]:
        """The metrics in a payload, each as a map with what it and its birth say."""
        payload = decode_payload(data)
        return [self._described(topic, metric, payload) for metric in metrics_of(payload)]

    def named(self, topic: EdgeTopic | None, payload: dict[str, Value]) -> dict[str, Value]:
        metrics = payload.get("metrics")
        if topic is None or not isinstance(metrics, list):
            return payload
        named: list[Value] = []
        for metric in metrics:
            born = self.find(topic, metric.get("alias")) if isinstance(metric, dict) and "name" not in metric else None
            named.append({**metric, "name": born.name} if born is not None and isinstance(metric, dict) else metric)
        return {**payload, "metrics": named}

    def statistics(self) -> dict[str, int]:
        """How much is known, what was forgotten for want of room, and how many births could not be learned."""
        return {
            "sparkplug.edge_nodes": len(self._edges),
            "sparkplug.edge_nodes.evicted": self.evicted,
            "sparkplug.aliases": self._count,
            "sparkplug.births.refused": self._refused,
            "sparkplug.births.malformed": self._malformed,
        }

    def _described(self, topic: EdgeTopic | None, metric: dict[str, Value], payload: dict[str, Value]) -> Value:
        born = None
        if topic is not None and ("name" not in metric or "datatype" not in metric):
            born = self.find(topic, metric.get("alias"))
        datatype = metric.get("datatype", UNDEFINED if born is None else born.datatype)
        described: dict[str, Value] = {
            "name": metric.get("name", UNDEFINED if born is None else born.name),
            "alias": metric.get("alias", UNDEFINED),
            "datatype": data_type_name(datatype),
            "timestamp": metric.get("timestamp", payload.get("timestamp", UNDEFINED)),
            "value": metric_value(metric, datatype),
        }
        found = {key: value for key, value in described.items() if value is not UNDEFINED}
        return found | {key: metric[key] for key in ("is_historical", "is_transient") if key in metric}

    def _on_death(self, topic: EdgeTopic, sequence: Value) -> None:
        key = (topic.group, topic.edge)
        edge = self._edges.get(key)
        # The will of a connection that was taken over may come after the birth of the one that took over; where only
        # births of devices were seen is unknown.
        if edge is not None and (sequence == edge.sequence or UNDEFINED in (sequence, edge.sequence)):
            self._forget_edge(key)

    def _on_birth(self, topic: EdgeTopic, metrics: list[dict[str, Value]]) -> None:
        key = (topic.group, topic.edge)
        if topic.device is None:
            self._forget_edge(key)
        else:
            self._forget_device(key, topic.device)
        aliases = dict(_aliases(metrics))
        length = _names_length(topic.device, aliases)
        edge = self._edges.get(key) or _Edge(_sequence(metrics) if topic.device is None else UNDEFINED)
        count_max = min(_EDGE_ALIASES_MAX, self.aliases_max)
        is_too_much = edge.count + len(aliases) > count_max or edge.names_length + length > _EDGE_NAMES_LENGTH_MAX
        if is_too_much or len(topic.group) + len(topic.edge) + len(topic.device or "") > _NAME_LENGTH_MAX:
            self._refused += 1
            return
        self._edges[key] = edge
        self._edges.move_to_end(key)
        if aliases:
            edge.aliases[topic.device] = aliases
            self._count_in(edge, len(aliases), length)
        self._make_room()

    def _make_room(self) -> None:
        """Forget edge nodes until the rest fits; the one that was heard of last always does."""
        while (
            len(self._edges) > self._edges_max
            or self._count > self.aliases_max
            or self._names_length > _NAMES_LENGTH_MAX
        ):
            self._forget_edge(next(iter(self._edges)))
            self.evicted += 1

    def _forget_edge(self, key: tuple[str, str]) -> None:
        edge = self._edges.pop(key, None)
        if edge is not None:
            self._count_in(edge, -edge.count, -edge.names_length)

    def _forget_device(self, key: tuple[str, str], device: str | None) -> None:
        edge = self._edges.get(key)
        aliases = None if edge is None else edge.aliases.pop(device, None)
        if edge is not None and aliases is not None:
            self._count_in(edge, -len(aliases), -_names_length(device, aliases))

    def _count_in(self, edge: _Edge, count: int, length: int) -> None:
        edge.count += count
        edge.names_length += length
        self._count += count
        self._names_length += length

    def __repr__(self) -> str:
        return f"Births({len(self._edges)} edge nodes, {self._count} aliases)"


def _names_length(device: str | None, aliases: dict[int, BornMetric]) -> int:
    return len(device or "") + sum(len(born.name) for born in aliases.values())


def _sequence(metrics: list[dict[str, Value]]) -> Value:
    return next((metric_value(metric) for metric in metrics if metric.get("name") == "bdSeq"), UNDEFINED)


def _aliases(metrics: list[dict[str, Value]]) -> Iterable[tuple[int, BornMetric]]:
    for metric in metrics:
        alias, name = metric.get("alias"), metric.get("name")
        if type(alias) is int and isinstance(name, str) and len(name) <= _NAME_LENGTH_MAX:
            yield alias, BornMetric(name, metric.get("datatype", UNDEFINED))
