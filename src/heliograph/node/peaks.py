"""The most that there ever was of what a node counts: EMQX's `connections.max` and its like."""

from collections.abc import Callable, Collection, Mapping

from heliograph.observe.metric import Sample, gauge, plain
from heliograph.observe.metrics import COUNTS, STATISTICS, counts_of
from heliograph.parts import Part


class PeaksPart(Part):
    """Looks at sizes at each tick and keeps the largest; owned by the node.

    Args:
        numbers: The values of some metrics by their names.
    """

    name = "peaks"
    metrics = tuple(
        gauge(f"{name}.max", f"The most that `{name}.count` has been, in EMQX's sense.") for name in STATISTICS
    )
    needs = ("kernel", "delayed", "retained")

    def __init__(self, numbers: Callable[[Collection[str]], Mapping[str, float]]) -> None:
        self._numbers = numbers
        self._peaks = {f"{name}.max": 0 for name in STATISTICS}

    def tick(self, uptime_us: int) -> None:
        """See how many there are."""
        for name, count in counts_of(self._numbers(COUNTS)).items():
            peak = name.removesuffix("count") + "max"
            self._peaks[peak] = max(self._peaks[peak], count)

    def samples(self) -> list[Sample]:
        """The most of each."""
        return plain(self._peaks)
