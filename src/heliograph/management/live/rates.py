"""How fast counts grow from look to look."""

import asyncio
from collections.abc import Mapping
from typing import TypeAlias

Counts: TypeAlias = Mapping[str, Mapping[str, int]]


class GrowingCounts:
    """Counts of several things; owned by a subject."""

    def __init__(self) -> None:
        self._before: Counts = {}
        self._before_at = 0.0

    def with_rates(self, counts: Counts) -> dict[str, dict[str, float | None]]:
        """Each count of each thing, and beside it `NAME_rate`: its growth a second, None at the first look."""
        now = asyncio.get_running_loop().time()
        passed_s = now - self._before_at if self._before_at else 0.0
        before, self._before, self._before_at = self._before, counts, now
        return {key: _with_rates(named, before.get(key), passed_s) for key, named in counts.items()}


def _with_rates(now: Mapping[str, int], before: Mapping[str, int] | None, passed_s: float) -> dict[str, float | None]:
    shown: dict[str, float | None] = {}
    for name, count in now.items():
        shown[name] = count
        shown[f"{name}_rate"] = None
        if before is not None and passed_s > 0:
            shown[f"{name}_rate"] = round(max(0, count - before.get(name, 0)) / passed_s, 1)
    return shown
