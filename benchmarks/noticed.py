"""What ten clients that exchange messages notice of something else that their broker does."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from benchmarks.brokers import Broker
from benchmarks.findings import Finding
from benchmarks.scale import Traffic

LOAD: Final = ("--clients", 10, "--rate", 100, "--qos", 1)


def noticed(
    broker: Broker,
    meanwhile: Callable[[], AbstractContextManager[object]],
    pairs: int,
    seconds: float,
    titles: tuple[str, str],
    limit: float,
) -> list[Finding]:
    """The p99 of 1,000 messages/s at QoS 1, by themselves and beside something else in turn; the median of the ratios.

    Args:
        meanwhile: Makes what goes on from the beginning of each second half of a pair to its end.
        seconds: How long each half takes.
        titles: What the p99 is called by itself, and beside it.
        limit: What the ratio may be.
    """
    alone, beside = [], []
    for _ in range(pairs):
        alone.append(_p99_ms(broker, seconds))
        with meanwhile():
            beside.append(_p99_ms(broker, seconds))
    ratios = [one / other for one, other in zip(beside, alone, strict=True)]
    return [
        Finding(titles[0], statistics.median(alone), " ms"),
        Finding(titles[1], statistics.median(beside), " ms"),
        Finding("the latter beside the former, median", statistics.median(ratios), "x", limit),
    ]


def _p99_ms(broker: Broker, seconds: float) -> float:
    with Traffic(broker.port, *LOAD) as traffic:
        time.sleep(seconds)
        latency = traffic()["latency_us"]
    return float(latency["p99"]) / 1000
