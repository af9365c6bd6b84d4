"""Scrapes: the families that a caller wants, of one node or of all."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from heliograph.management.asking.nodes import Node
from heliograph.management.prometheus.access import access_families
from heliograph.management.prometheus.emqx import add_cluster, stats_families
from heliograph.management.prometheus.families import MetricFamilies, aggregated, unaggregated
from heliograph.management.prometheus.integration import POLICIES, integration_families, policy_families
from heliograph.management.prometheus.machine import MachineMeter
from heliograph.management.prometheus.ours import our_families
from heliograph.management.prometheus.snapshot import Snapshots
from heliograph.rpc.conversation import UnreachableError

NODE: Final = "node"
AGGREGATED: Final = "all_nodes_aggregated"
UNAGGREGATED: Final = "all_nodes_unaggregated"
MODES: Final = (NODE, AGGREGATED, UNAGGREGATED)

STATS: Final = "stats"


class Scrapes:
    """Answers scrapes; owned by the program, in whose event loop it is used."""

    def __init__(self) -> None:
        self._snapshots = Snapshots()
        self._machine = MachineMeter()
        self._kinds: Mapping[str, Callable[[Node], Awaitable[MetricFamilies]]] = {
            STATS: self._stats,
            "auth": access_families,
            "data_integration": integration_families,
            **{kind: _policies(kind) for kind in POLICIES},
        }

    async def scrape(self, kind: str, nodes: list[Node], own: Node, mode: str) -> MetricFamilies:
        """The families of one kind.

        Args:
            kind: `stats`, `auth`, `data_integration`, `schema_validation` or `message_transformation`.
            nodes: All nodes.
            own: The one beside this process.
            mode: Of `MODES`.

        Raises:
            UnreachableError: No node answers.
        """
        wanted = [own] if mode == NODE else nodes
        answers = await asyncio.gather(*(self._kinds[kind](node) for node in wanted), return_exceptions=True)
        found: dict[str, MetricFamilies] = {}
        for node, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, MetricFamilies):
                found[node.name] = answer
            elif not isinstance(answer, UnreachableError) or len(wanted) == 1:
                raise answer
        joined = unaggregated(found) if mode == UNAGGREGATED else aggregated(found)
        if kind == STATS:
            add_cluster(joined, len(found), len(wanted) - len(found))
        return joined

    async def _stats(self, node: Node) -> MetricFamilies:
        snapshot = await self._snapshots.take(node)
        found = stats_families(snapshot, self._machine.look())
        found.add(our_families(snapshot))
        return found


def _policies(kind: str) -> Callable[[Node], Awaitable[MetricFamilies]]:
    async def families(node: Node) -> MetricFamilies:
        return await policy_families(node, kind)

    return families
