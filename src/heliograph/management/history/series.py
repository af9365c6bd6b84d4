"""The history as a chart has it: few points, each of a stretch of time, with rates a second and sizes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from heliograph.management.history.sample import COUNTERS, GAUGES, LONGEST_TURN, MEMORY, OWN_COUNTERS

#: What happens, a second, and how much there is.
NAMES: Final = (*COUNTERS, *OWN_COUNTERS, *GAUGES, LONGEST_TURN, MEMORY)
GAP_MS: Final = 600_000  # no two samples that follow each other are farther apart, unless there was no node
_RATES: Final = frozenset({*COUNTERS, *OWN_COUNTERS})
_STEPS_S: Final = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)

Values = list[float | None]


def step_of(seconds: int, points: int) -> int:
    """How long the stretch of a point is, for so many seconds and so many points at the most; in seconds."""
    return next((step for step in _STEPS_S if seconds / step <= points), _STEPS_S[-1])


class NodePoints:
    """The points of one node, to which samples are added one after the other: a week of them is never held at once.

    Args:
        names: Of `NAMES`.
        step_s: How long the stretch of a point is.
    """

    def __init__(self, names: Iterable[str], since_ms: int, until_ms: int, step_s: int) -> None:
        self._step_ms = step_s * 1000
        self._begin = since_ms // self._step_ms
        count = until_ms // self._step_ms - self._begin + 1
        self._passed_ms = [0] * count
        self._found: dict[str, Values] = {name: [None] * count for name in names}
        self._before_ms = 0

    @property
    def at(self) -> list[int]:
        """When each stretch begins, in milliseconds since the epoch."""
        return [(self._begin + index) * self._step_ms for index in range(len(self._passed_ms))]

    def add(self, at_ms: int, values: Mapping[str, int]) -> None:
        """Add a sample, which is newer than those before; also one shortly before the first point."""
        passed_ms = min(at_ms - self._before_ms if self._before_ms else self._step_ms, GAP_MS)
        self._before_ms = at_ms
        index = at_ms // self._step_ms - self._begin
        if not 0 <= index < len(self._passed_ms):
            return
        self._passed_ms[index] += passed_ms
        for name, found in self._found.items():
            value, before = values.get(name, 0), found[index] or 0
            if name in _RATES:
                found[index] = before + value
            elif name == LONGEST_TURN:
                found[index] = max(before, value)
            elif name in values:
                found[index] = value

    def values(self, name: str) -> Values:
        """Of each stretch; None where there is no sample."""
        found = self._found[name]
        if name not in _RATES:
            return found
        counts = zip(found, self._passed_ms, strict=True)
        return [None if count is None else 1000 * count / max(1, passed_ms) for count, passed_ms in counts]


def series(nodes: Sequence[NodePoints], names: Iterable[str], step_s: int) -> dict[str, Any]:
    """What all nodes together did, as charts show it."""
    return {
        "step_s": step_s,
        "at": nodes[0].at,
        "values": {name: _joined(name, [node.values(name) for node in nodes]) for name in names},
    }


def _joined(name: str, nodes: Sequence[Values]) -> Values:
    """The sums over nodes, of the longest turn the most."""
    joined: Values = []
    for point in zip(*nodes, strict=True):
        known = [value for value in point if value is not None]
        total = (max if name == LONGEST_TURN else sum)(known) if known else None
        joined.append(None if total is None else round(total, 1) if 0 < total < 1000 else round(total))
    return joined
