"""Families of metrics, and their text form for Prometheus (version 0.0.4)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"

Labels = tuple[tuple[str, str], ...]
"""Names of labels with their values."""

_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})


@dataclass(slots=True)
class MetricFamily:
    """Numbers of one name.

    Attributes:
        kind: `gauge`, `counter` or `histogram`.
        help: What it counts; empty for no line of help.
        series: The numbers by their labels; of a histogram also by what is put behind the name, as `_bucket`.
    """

    name: str
    kind: str
    help: str = ""
    series: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def put(self, value: float, labels: Labels = (), suffix: str = "") -> None:
        self.series[suffix, labels] = value

    @property
    def value(self) -> float:
        """The number of a family without labels."""
        return self.series["", ()]


class MetricFamilies:
    """Families by their names, in the order in which they were made."""

    def __init__(self) -> None:
        self._families: dict[str, MetricFamily] = {}

    def put(self, name: str, kind: str, value: float, help: str = "", /, suffix: str = "", **labels: str) -> None:
        """Add a number to a family, which is made if it is not there."""
        self.family(name, kind, help).put(value, tuple(labels.items()), suffix)

    def family(self, name: str, kind: str, help: str = "") -> MetricFamily:
        return self._families.setdefault(name, MetricFamily(name, kind, help))

    def add(self, others: "MetricFamilies") -> None:
        """Add families that are not there yet."""
        for family in others:
            self._families.setdefault(family.name, family)

    def __iter__(self) -> Iterator[MetricFamily]:
        return iter(self._families.values())

    def __getitem__(self, name: str) -> MetricFamily:
        return self._families[name]

    def __contains__(self, name: str) -> bool:
        return name in self._families

    def __len__(self) -> int:
        return len(self._families)


def aggregated(by_node: Mapping[str, MetricFamilies]) -> MetricFamilies:
    """The sums over nodes; what is enabled or works is so where it is on all of them."""
    found = MetricFamilies()
    for families in by_node.values():
        for family in families:
            joined = found.family(family.name, family.kind, family.help)
            is_state = family.name.endswith(("_enable", "_status"))
            for key, value in family.series.items():
                before = joined.series.get(key)
                if before is not None:
                    value = min(value, before) if is_state else value + before
                joined.series[key] = value
    return found


def unaggregated(by_node: Mapping[str, MetricFamilies]) -> MetricFamilies:
    """The numbers of all nodes, with the label `node`."""
    found = MetricFamilies()
    for node, families in by_node.items():
        for family in families:
            joined = found.family(family.name, family.kind, family.help)
            for (suffix, labels), value in family.series.items():
                joined.put(value, (("node", node), *labels), suffix)
    return found


def text_of(families: MetricFamilies) -> str:
    """Families in the text form."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help.translate(_HELP_ESCAPED)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [
            f"{family.name}{suffix}{_labels_text(labels)} {number_text(value)}"
            for (suffix, labels), value in family.series.items()
        ]
    lines.append("")
    return "\n".join(lines)


def number_text(value: float) -> str:
    """A number as Prometheus reads it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _labels_text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels) + "}"
