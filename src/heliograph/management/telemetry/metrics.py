"""Metrics in the form of OTLP: EMQX's under `emqx.`, all of ours under `heliograph.`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from heliograph.control.proto_v1.metrics import DeclaredMetric, MetricSample
from heliograph.management.telemetry.values import key_values, resource, scope
from heliograph.observe.metric import COUNTER, HISTOGRAM
from heliograph.observe.metrics import metrics_of, statistics_of

_SUM: Final = "sum"  # in the place of a bound
_CUMULATIVE: Final = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_RENAMED: Final = {
    "packets.connect.received": "packets.connect",
    "messages.dropped.await_pubrel_timeout": "messages.dropped.expired",
}


class MetricsForm:
    """Makes requests of what a node counts.

    Args:
        since_ns: Since when it counts, in nanoseconds since the epoch.
        declared: What its numbers are.
    """

    def __init__(self, node: str, since_ns: int, declared: Sequence[DeclaredMetric]) -> None:
        self._node = node
        self._since_ns = since_ns
        self._declared = {one.name: one for one in declared}

    def request(self, samples: Sequence[MetricSample], machine: Mapping[str, float]) -> ExportMetricsServiceRequest:
        """One request with all of them.

        Args:
            machine: Gauges of the machine, under EMQX's names.
        """
        now_ns = time.time_ns()
        metrics = [*self._emqx(samples, machine, now_ns), *self._own(samples, now_ns)]
        found = ScopeMetrics(scope=scope(), metrics=metrics)
        return ExportMetricsServiceRequest(
            resource_metrics=[ResourceMetrics(resource=resource(self._node), scope_metrics=[found])]
        )

    def _emqx(self, samples: Sequence[MetricSample], machine: Mapping[str, float], now_ns: int) -> Iterator[Metric]:
        numbers = {one.name: one.value for one in samples if not one.labels}
        for name, count in metrics_of(numbers).items():
            point = self._point(count, {}, now_ns, since_ns=self._since_ns)
            yield Metric(name=f"emqx.{_RENAMED.get(name, name)}", sum=self._sum([point]))
        for name, value in (statistics_of(numbers) | dict(machine)).items():
            yield Metric(name=f"emqx.{name}", gauge=Gauge(data_points=[self._point(value, {}, now_ns)]))

    def _own(self, samples: Sequence[MetricSample], now_ns: int) -> Iterator[Metric]:
        by_name: dict[str, list[MetricSample]] = {}
        for one in samples:
            by_name.setdefault(one.name, []).append(one)
        for name, found in by_name.items():
            metric = self._declared.get(name)
            if metric is None:
                continue
            named = Metric(name=f"heliograph.{name}", description=metric.meaning, unit=metric.unit)
            if metric.kind == HISTOGRAM:
                named.histogram.CopyFrom(self._histogram(metric, found, now_ns))
            else:
                since_ns = self._since_ns if metric.kind == COUNTER else 0
                points = [
                    self._point(one.value, dict(zip(metric.labels, one.labels, strict=True)), now_ns, since_ns)
                    for one in found
                ]
                if metric.kind == COUNTER:
                    named.sum.CopyFrom(self._sum(points))
                else:
                    named.gauge.CopyFrom(Gauge(data_points=points))
            yield named

    def _histogram(self, metric: DeclaredMetric, samples: Sequence[MetricSample], now_ns: int) -> Histogram:
        by_labels: dict[tuple[str, ...], dict[str, float]] = {}
        for one in samples:
            by_labels.setdefault(tuple(one.labels[:-1]), {})[one.labels[-1]] = one.value
        points = []
        for labels, counts in by_labels.items():
            total = counts.pop(_SUM, None)
            bounds = sorted((float(bound), count) for bound, count in counts.items())
            counted = [count for _, count in bounds]
            points.append(
                HistogramDataPoint(
                    attributes=key_values(dict(zip(metric.labels[:-1], labels, strict=True))),
                    start_time_unix_nano=self._since_ns,
                    time_unix_nano=now_ns,
                    count=int(counted[-1]) if counted else 0,
                    sum=total,
                    explicit_bounds=[bound for bound, _ in bounds if bound != float("inf")],
                    bucket_counts=[int(count - below) for count, below in zip(counted, [0, *counted], strict=False)],
                )
            )
        return Histogram(data_points=points, aggregation_temporality=_CUMULATIVE)

    @staticmethod
    def _sum(points: Sequence[NumberDataPoint]) -> Sum:
        return Sum(data_points=points, aggregation_temporality=_CUMULATIVE, is_monotonic=True)

    @staticmethod
    def _point(value: float, labels: Mapping[str, str], now_ns: int, since_ns: int = 0) -> NumberDataPoint:
        point = NumberDataPoint(time_unix_nano=now_ns, start_time_unix_nano=since_ns, attributes=key_values(labels))
        if float(value).is_integer():
            point.as_int = int(value)
        else:
            point.as_double = value
        return point
