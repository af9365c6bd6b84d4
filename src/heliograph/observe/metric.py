"""What the numbers of a node are: kind, unit, labels and meaning, declared by the part that counts them.

A part gives `Sample`s: the name of a metric, its value, and the values of its labels. Everything that shows numbers is
made of these: an exporter takes them as they are, the log has flat names in which the labels stand between dots
(`rules.one.matched` is `rule.matched` of the rule `one`), `$SYS` those that EMQX has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

COUNTER: Final = "counter"  # it only grows while the node runs
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"  # its last label is `le`, the upper bound of a bucket,
SUM: Final = "sum"  # or this: the sum of all measurements


class Sample(NamedTuple):
    name: str
    value: float
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        kind: `counter`, `gauge` or `histogram`.
        labels: The names of its labels.
        flat: Its name in the log, with labels in braces (`rules.{rule}.matched`); empty for its own, followed by them.
        unnamed: The value of a label that a flat name leaves out with its dot; empty for none.
    """

    name: str
    kind: str
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    flat: str = ""
    unnamed: str = ""

    @property
    def template(self) -> str:
        return self.flat or ".".join((self.name, *(f"{{{label}}}" for label in self.labels)))

    def flat_name(self, values: Iterable[str]) -> str:
        text = self.template
        if self.kind == HISTOGRAM:
            *values, last = values
            text = text.replace("le.{le}", SUM if last == SUM else f"le.{last}")
            values = (*values, last)
        for label, value in zip(self.labels, values, strict=True):
            text = text.replace(f"{{{label}}}.", "") if value == self.unnamed else text.replace(f"{{{label}}}", value)
        return text


def counter(name: str, meaning: str, unit: str = "", labels: tuple[str, ...] = (), flat: str = "") -> Metric:
    """Declare a metric that only grows."""
    return Metric(name, COUNTER, meaning, unit, labels, flat)


def gauge(name: str, meaning: str, unit: str = "", labels: tuple[str, ...] = (), flat: str = "") -> Metric:
    """Declare a metric that says how much there is."""
    return Metric(name, GAUGE, meaning, unit, labels, flat)


def histogram(name: str, meaning: str, unit: str, labels: tuple[str, ...] = ()) -> Metric:
    """Declare a metric whose numbers count measurements up to a bound."""
    template = ".".join((name, *(f"{{{label}}}" for label in labels), "le.{le}"))
    return Metric(name, HISTOGRAM, meaning, unit, (*labels, "le"), template)


def plain(numbers: Mapping[str, float]) -> list[Sample]:
    return [Sample(name, value) for name, value in numbers.items()]


def labelled(prefix: str, numbers: Mapping[str, float], *labels: str) -> list[Sample]:
    """Metrics `PREFIX.NAME`."""
    return [Sample(f"{prefix}.{name}", value, labels) for name, value in numbers.items()]


def by_label(name: str, numbers: Mapping[str, float]) -> list[Sample]:
    return [Sample(name, value, (label,)) for label, value in numbers.items()]


def describe(owners: Mapping[str, Iterable[Metric]]) -> str:
    """As a page lists them."""
    lines = [
        "| Metric | Kind | Unit | Labels | In the log | Part | What it counts |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for owner, metrics in owners.items():
        for metric in metrics:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            lines.append(
                f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | `{metric.template}` | {owner} | "
                f"{metric.help} |"
            )
    return "\n".join(lines)


class Catalogue:
    """The metrics of a node by their names; `ValueError` if two different ones have the same."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics: dict[str, Metric] = {}
        for metric in metrics:
            if self.metrics.setdefault(metric.name, metric) != metric:
                raise ValueError(f"the metric {metric.name} is declared twice")

    def declares(self, sample: Sample) -> bool:
        """With as many labels as its metric has."""
        metric = self.metrics.get(sample.name)
        return metric is not None and len(metric.labels) == len(sample.labels)

    def flat(self, samples: Iterable[Sample]) -> dict[str, float]:
        """Those that are not declared are left out."""
        return {
            self.metrics[sample.name].flat_name(sample.labels): sample.value
            for sample in samples
            if self.declares(sample)
        }

    def __repr__(self) -> str:
        return f"Catalogue({len(self.metrics)} metrics)"
