"""A histogram of durations in fixed buckets."""

from bisect import bisect_left
from collections.abc import Sequence

from heliograph.observe.metric import Sample


class Histogram:
    """Counts measurements by upper bounds; owned by what measures.

    Args:
        bounds: The upper bounds, rising; `+Inf` is added.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        """One more measurement."""
        self._counts[bisect_left(self._bounds, value)] += 1

    def samples(self, name: str, *labels: str) -> list[Sample]:
        """How many measurements are at most each bound, as Prometheus has them.

        Args:
            name: The name of the metric.
            labels: The values of its labels but the last one.
        """
        found, total = [], 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            found.append(Sample(name, total, (*labels, str(bound))))
        return found

    def __repr__(self) -> str:
        return f"Histogram({self._counts})"
