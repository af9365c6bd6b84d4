"""What a number of the node is: its kind, unit, labels and meaning, declared by the part that counts it.

Parts report numbers by flat names, in which labels stand between dots (`rules.one.matched`). The log and `$SYS` show
them so; a `Catalogue` says what each of them is, with labels apart.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

COUNTER: Final = "counter"  # it only grows while the node runs
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"  # its flat names have a label `le`, the upper bound of a bucket

_LABEL: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: Its name without labels, unique in a node.
        kind: `counter`, `gauge` or `histogram`.
        help: What it counts, for people.
        unit: What it is measured in; empty for a number of things.
        flat: The flat names that it has, with labels in braces (`rules.{rule}.matched`).
        without: The value of its label where a flat name has none.
    """

    name: str
    kind: str
    help: str
    unit: str = ""
    flat: tuple[str, ...] = ()
    without: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Its flat names; by default its own."""
        return self.flat or (self.name,)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels."""
        return tuple(dict.fromkeys(label for name in self.names for label in _LABEL.findall(name)))


def counter(name: str, meaning: str, unit: str = "", *flat: str, without: str = "") -> Metric:
    """Declare a metric that only grows."""
    return Metric(name, COUNTER, meaning, unit, flat, without)


def gauge(name: str, meaning: str, unit: str = "", *flat: str, without: str = "") -> Metric:
    """Declare a metric that says how much there is."""
    return Metric(name, GAUGE, meaning, unit, flat, without)


def histogram(name: str, meaning: str, unit: str, *flat: str, without: str = "") -> Metric:
    """Declare a metric whose numbers count measurements up to a bound, the label `le`."""
    return Metric(name, HISTOGRAM, meaning, unit, flat, without)


def describe(owners: Mapping[str, Iterable[Metric]]) -> str:
    """The metrics as a page lists them.

    Args:
        owners: What each part declares.
    """
    lines = [
        "| Metric | Kind | Unit | Labels | In the log | Part | What it counts |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for owner, metrics in owners.items():
        for metric in metrics:
            labels, names = (", ".join(f"`{one}`" for one in some) for some in (metric.labels, metric.names))
            lines.append(
                f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {names} | {owner} | {metric.help} |"
            )
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Sample:
    """A number with what it is.

    Attributes:
        labels: The values of the metric's labels, by name.
    """

    metric: Metric
    labels: Mapping[str, str]
    value: float


class Catalogue:
    """The metrics of a node, found by flat names; owned by what exports them.

    Args:
        metrics: They may name one metric more than once.

    Raises:
        ValueError: Two different metrics have one name.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics: dict[str, Metric] = {}
        self._exact: dict[str, Metric] = {}
        self._patterns: list[tuple[re.Pattern[str], Metric]] = []
        for metric in metrics:
            known = self.metrics.setdefault(metric.name, metric)
            if known != metric:
                raise ValueError(f"the metric {metric.name} is declared twice")
            if known is not metric:
                continue
            for name in metric.names:
                if _LABEL.search(name):
                    self._patterns.append((_pattern(name), metric))
                else:
                    self._exact[name] = metric

    def sample(self, name: str, value: float) -> Sample | None:
        """What a number is by its flat name; None for one that is not declared."""
        metric = self._exact.get(name)
        if metric is not None:
            return Sample(metric, dict.fromkeys(metric.labels, metric.without), value)
        for pattern, metric in self._patterns:
            found = pattern.fullmatch(name)
            if found is not None:
                return Sample(metric, dict.fromkeys(metric.labels, metric.without) | found.groupdict(), value)
        return None

    def __repr__(self) -> str:
        return f"Catalogue({len(self.metrics)} metrics)"


def _pattern(name: str) -> re.Pattern[str]:
    """Labels hold no dots, but for one at the end: names of hook points do."""
    parts = _LABEL.split(name)
    text = ""
    for position, part in enumerate(parts):
        is_last = position == len(parts) - 2 and not parts[-1]
        text += re.escape(part) if position % 2 == 0 else f"(?P<{part}>{'.+' if is_last else '[^.]+'})"
    return re.compile(text)
