"""The numbers of a node: what it is, how many of a thing there are, and what it has counted."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from heliograph import __version__
from heliograph.control.proto_v1.broker import BROKER_INFO, BROKER_METRICS, BROKER_STATS, BrokerInfo, MetricValue
from heliograph.observe.metric import COUNTER, HISTOGRAM, Catalogue
from heliograph.parts import Parts
from heliograph.rpc.methods import SLICE, Call, Method, NoArgs

_DESCRIPTION = "Heliograph, an MQTT platform that keeps every message as a replayable stream"


def methods(parts: Parts, now_us: Callable[[], int], uptime_s: Callable[[], int]) -> list[Method]:
    """`broker.info`, `broker.stats`, `broker.metrics`.

    Args:
        now_us: The time, in microseconds since the epoch.
        uptime_s: Seconds since the node was ready.
    """
    catalogue = Catalogue(metric for part in parts.all() for metric in part.metrics)

    def info(args: NoArgs, call: Call) -> BrokerInfo:
        now = datetime.fromtimestamp(now_us() / 1e6, UTC)
        return BrokerInfo(_DESCRIPTION, __version__, now.isoformat(timespec="seconds"), uptime_s())

    def stats(args: NoArgs, call: Call) -> Iterator[Sequence[MetricValue]]:
        return _numbers(parts, catalogue, are_counters=False)

    def metrics(args: NoArgs, call: Call) -> Iterator[Sequence[MetricValue]]:
        return _numbers(parts, catalogue, are_counters=True)

    return [
        BROKER_INFO.by(info),
        BROKER_STATS.by(stats),
        BROKER_METRICS.by(metrics),
    ]


def _numbers(parts: Parts, catalogue: Catalogue, are_counters: bool) -> Iterator[Sequence[MetricValue]]:
    """The numbers of one part after the other; a part counts all of its own in one turn."""
    for part in parts.all():
        found = [
            MetricValue(metric.flat_name(sample.labels), sample.value, "" if metric.kind == HISTOGRAM else metric.unit)
            for sample in part.samples()
            if catalogue.declares(sample)
            and ((metric := catalogue.metrics[sample.name]).kind == COUNTER) is are_counters
        ]
        for begin in range(0, len(found), SLICE):
            yield found[begin : begin + SLICE]
