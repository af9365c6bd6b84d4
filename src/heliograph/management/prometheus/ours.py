"""What a node counts that EMQX has no name for, as `heliograph_...`: storage, pipeline, loop, memory, access, rules."""

from collections.abc import Iterable
from typing import Final

from heliograph.control.proto_v1.metrics import DeclaredMetric
from heliograph.management.prometheus.emqx import LABELLED
from heliograph.management.prometheus.families import COUNTER, HISTOGRAM, Labels, MetricFamilies, MetricFamily
from heliograph.management.prometheus.snapshot import Snapshot
from heliograph.observe import metrics as catalogue
from heliograph.observe.metric import SUM

_PREFIX: Final = "heliograph_"
_MICROSECONDS: Final = "microseconds"
_INFINITE: Final = "+Inf"
# Ways of writing units at the end of a name, by the unit that Prometheus wants there.
_ENDS: Final = {"seconds": ("_us", "_s"), "bytes": ()}

# Names that would be those of other metrics.
_NAMED: Final = {"storage.last_commit_us": "storage.last_commit_at_us"}


def is_emqx(name: str) -> bool:
    """Whether a metric of ours is shown under EMQX's name, and means just that."""
    return name in catalogue.COUNTERS or name in catalogue.SIZES or name in LABELLED


def name_of(declared: DeclaredMetric) -> str:
    """The name of a metric in Prometheus: its unit and `_total` stand at its end."""
    name = _NAMED.get(declared.name, declared.name).replace(".", "_")
    unit = "seconds" if declared.unit == _MICROSECONDS else declared.unit
    for end in _ENDS.get(unit, ()):
        name = name.removesuffix(end)
    if unit and not name.endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    return f"{_PREFIX}{name}_total" if declared.kind == COUNTER else _PREFIX + name


def our_families(snapshot: Snapshot) -> MetricFamilies:
    """All of them, of one node."""
    found = MetricFamilies()
    for sample in snapshot.samples:
        declared = snapshot.declared.get(sample.name)
        if declared is None or is_emqx(sample.name):
            continue
        family = found.family(name_of(declared), declared.kind, declared.meaning)
        if declared.kind == HISTOGRAM:
            _put_bucket(family, tuple(zip(declared.labels, sample.labels, strict=True)), sample.value)
        else:
            value = sample.value / 1e6 if declared.unit == _MICROSECONDS else sample.value
            family.put(value, tuple(zip(declared.labels, sample.labels, strict=True)))
    return found


def _put_bucket(family: MetricFamily, labels: Labels, value: float) -> None:
    """A number of a histogram; its last label is the bound, or says that it is the sum."""
    of_all, bound = labels[:-1], labels[-1][1]
    if bound == SUM:
        family.put(value, of_all, "_sum")
        return
    family.put(value, labels, "_bucket")
    if bound == _INFINITE:
        family.put(value, of_all, "_count")


def names_of(declared: Iterable[DeclaredMetric]) -> set[str]:
    """The names of families that a node may give, buckets and sums of histograms included."""
    found: set[str] = set()
    for one in declared:
        if is_emqx(one.name):
            continue
        name = name_of(one)
        found |= {name + end for end in ("_bucket", "_sum", "_count")} if one.kind == HISTOGRAM else {name}
    return found
