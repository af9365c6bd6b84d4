"""A histogram of durations in fixed buckets."""

from collections.abc import Sequence

from mypy_extensions import i64

from heliograph.observe.metric import SUM, Sample


class Histogram:
    """Counts measurements by upper bounds; owned by what measures.

    Args:
        bounds: The upper bounds, rising; `+Inf` is added.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds: list[float] = list(bounds)
        self._counts: list[int] = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """One more measurement."""
        at: i64 = 0
        for bound in self._bounds:
            if value <= bound:
                break
            at += 1
        self._counts[at] += 1
        self._sum += value

    def samples(self, name: str, *labels: str) -> list[Sample]:
        """How many measurements are at most each bound, as Prometheus has them, and their sum.

        Args:
            name: The name of the metric.
            labels: The values of its labels but the last one.
        """
        found: list[Sample] = []
        total = 0
        bounds = [str(bound) for bound in self._bounds]
        for bound, count in zip([*bounds, "+Inf"], self._counts, strict=True):
            total += count
            found.append(Sample(name, total, (*labels, bound)))
        found.append(Sample(name, round(self._sum, 6), (*labels, SUM)))
        return found

    def __repr__(self) -> str:
        return f"Histogram({self._counts})"
