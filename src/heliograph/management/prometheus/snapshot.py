"""What nodes count, as they are asked for it at each scrape."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliograph.control.proto_v1.metrics import (
    METRICS_DECLARED,
    METRICS_SAMPLES,
    DeclaredMetric,
    MetricSample,
    MetricsWanted,
)
from heliograph.management.asking.nodes import Node


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All numbers of one node.

    Attributes:
        declared: What they are, by name.
        samples: The numbers.
        numbers: Those of metrics without labels, by name.
    """

    node: str
    declared: Mapping[str, DeclaredMetric]
    samples: list[MetricSample]
    numbers: Mapping[str, float]

    def labelled(self, name: str) -> dict[tuple[str, ...], float]:
        """The numbers of a metric by the values of its labels."""
        return {tuple(sample.labels): sample.value for sample in self.samples if sample.name == name}


class Snapshots:
    """Takes snapshots, and caches the declarations of metrics of each version of a node."""

    def __init__(self) -> None:
        self._declared: dict[str, dict[str, DeclaredMetric]] = {}

    async def take(self, node: Node) -> Snapshot:
        """All numbers of a node."""
        samples = await node.rows(METRICS_SAMPLES(MetricsWanted()))
        declared = self._declared.get(node.name, {})
        if any(sample.name not in declared for sample in samples):
            declared = {row.name: row for row in await node.rows(METRICS_DECLARED())}
            self._declared[node.name] = declared
        return snapshot_of(node.name, declared.values(), samples)


def snapshot_of(node: str, declared: Iterable[DeclaredMetric], samples: list[MetricSample]) -> Snapshot:
    numbers = {sample.name: sample.value for sample in samples if not sample.labels}
    return Snapshot(node, {row.name: row for row in declared}, samples, numbers)
