"""All that a node counts, for what exports it."""

import msgspec

from heliograph.rpc.asks import EQUAL, SUMMED, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class MetricsWanted(Args, frozen=True):
    """Asks for numbers.

    Attributes:
        names: Those of metrics; empty for all.
    """

    names: tuple[str, ...] = ()


class DeclaredMetric(msgspec.Struct, frozen=True, array_like=True):
    """A row of `metrics.declared`; docs/metrics.md lists them.

    Attributes:
        name: Its name, unique in a node.
        kind: `counter`, `gauge` or `histogram`.
        unit: What it is measured in; empty for a number of things.
        labels: The names of its labels; the last one of a histogram is `le`.
        meaning: What it counts.
    """

    name: str
    kind: str
    unit: str
    labels: list[str]
    meaning: str


class MetricSample(msgspec.Struct, frozen=True, array_like=True):
    """A row of `metrics.samples`.

    Attributes:
        name: The name of its metric.
        value: How many; of a histogram, how many up to the bound that its last label says, or their sum (`sum`).
        labels: The values of the metric's labels.
    """

    name: str
    value: float
    labels: list[str]


METRICS_DECLARED = ListAsk("metrics.declared", NoArgs, DeclaredMetric, EQUAL)
METRICS_SAMPLES = ListAsk("metrics.samples", MetricsWanted, MetricSample, SUMMED)
