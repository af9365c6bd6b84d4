"""All that a node counts, with labels, as what exports it needs it: `broker.metrics` is for people."""

from collections.abc import Iterator, Sequence, Set

from heliograph.control.proto_v1.metrics import (
    METRICS_DECLARED,
    METRICS_SAMPLES,
    DeclaredMetric,
    MetricSample,
    MetricsWanted,
)
from heliograph.control.slices import in_slices
from heliograph.observe.metric import Catalogue
from heliograph.parts import Parts
from heliograph.rpc.methods import Call, Method, NoArgs


def methods(parts: Parts) -> list[Method]:
    catalogue = Catalogue(metric for part in parts.all() for metric in part.metrics)

    def declared(args: NoArgs, call: Call) -> Iterator[Sequence[DeclaredMetric]]:
        return in_slices(
            DeclaredMetric(metric.name, metric.kind, metric.unit, list(metric.labels), metric.help)
            for metric in catalogue.metrics.values()
        )

    def samples(args: MetricsWanted, call: Call) -> Iterator[Sequence[MetricSample]]:
        return in_slices(_samples(parts, catalogue, frozenset(args.names)))

    return [METRICS_DECLARED.by(declared), METRICS_SAMPLES.by(samples)]


def _samples(parts: Parts, catalogue: Catalogue, names: Set[str]) -> Iterator[MetricSample | None]:
    for sample in parts.sample_pieces(names=names):
        if sample is None:
            yield None
        elif catalogue.declares(sample) and (not names or sample.name in names):
            yield MetricSample(sample.name, sample.value, list(sample.labels))
