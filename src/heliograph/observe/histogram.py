"""A histogram of durations in fixed buckets."""

from collections.abc import Sequence

from mypy_extensions import i64

from heliograph.observe.metric import SUM, Sample


class Histogram:
    """Counts measurements by rising upper bounds; `+Inf` is added."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds: list[float] = list(bounds)
        self._counts: list[int] = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        at: i64 = 0
        for bound in self._bounds:
            if value <= bound:
                break
            at += 1
        self._counts[at] += 1
        self._sum += value

    def samples(self, name: str, *labels: str) -> list[Sample]:
        """As Prometheus has them: how many measurements are at most each bound, and their sum."""
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
