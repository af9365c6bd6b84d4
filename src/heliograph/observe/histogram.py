"""How often something took how long, in a few numbers."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts measurements by upper bounds; owned by what measures.

    Args:
        name: What its numbers are called: `NAME.le.BOUND` counts those of at most that bound, as Prometheus has them.
        bounds: The upper bounds, rising; `+Inf` is added.
    """

    def __init__(self, name: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        """One more measurement."""
        self._counts[bisect_left(self._bounds, value)] += 1

    def statistics(self) -> dict[str, int]:
        """The counts."""
        numbers, total = {}, 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            numbers[f"{self._name}.le.{bound}"] = total
        return numbers

    def __repr__(self) -> str:
        return f"Histogram({self._name}, {self._counts})"
