"""EMQX's metrics and statistics of nodes, as JSON."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypeAlias

from fastapi import Query

from heliograph.management.asking.nodes import Node
from heliograph.management.asking.numbers import numbers_of
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.observe.metrics import COUNTERS, SIZES, metrics_of, statistics_of

area = Area("Metrics", "Counters, and numbers of connections, sessions and others.", scope="metrics")

AggregateDep = Annotated[bool, Query(description="Whether the sums over all nodes are wanted, as one object")]
Numbers: TypeAlias = dict[str, int]
NumbersOfNode: TypeAlias = dict[str, int | str]
"""The same with the name of the node, under `node`."""
NodeParameter = Annotated[str | None, Query(description="One node; otherwise all")]

_NO_NODE = {500: ("NODE_DOWN",)}


@area.get("/metrics", errors=_NO_NODE)
async def get_metrics(
    nodes: NodesDep, aggregate: AggregateDep = False, node: NodeParameter = None
) -> Numbers | list[NumbersOfNode]:
    """Counters of all nodes."""
    return await _of_nodes(nodes.chosen(node), aggregate, COUNTERS, metrics_of)


@area.get("/stats", errors=_NO_NODE)
async def get_stats(
    nodes: NodesDep, aggregate: AggregateDep = False, node: NodeParameter = None
) -> Numbers | list[NumbersOfNode]:
    """Numbers of connections, sessions, subscriptions and others on all nodes, with their peaks."""
    return await _of_nodes(nodes.chosen(node), aggregate, SIZES, statistics_of)


@area.get("/nodes/{node}/metrics", errors=MISSING)
async def get_node_metrics(node: str, nodes: NodesDep) -> Numbers:
    """Counters of one node."""
    return metrics_of(await numbers_of(nodes.named(node), COUNTERS))


@area.get("/nodes/{node}/stats", errors=MISSING)
async def get_node_stats(node: str, nodes: NodesDep) -> Numbers:
    """Numbers of connections, sessions, subscriptions and others on one node, with their peaks."""
    return statistics_of(await numbers_of(nodes.named(node), SIZES))


async def _of_nodes(
    nodes: list[Node],
    is_sum: bool,
    names: Iterable[str],
    named: Callable[[Mapping[str, float]], dict[str, int]],
) -> Numbers | list[NumbersOfNode]:
    found = {node.name: named(await numbers_of(node, names)) for node in nodes}
    if not is_sum:
        return [{"node": node, **numbers} for node, numbers in found.items()]
    totals: dict[str, int] = {}
    for numbers in found.values():
        for name, number in numbers.items():
            totals[name] = totals.get(name, 0) + number
    return totals
