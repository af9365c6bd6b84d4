"""How fast a count grows: now, at the most, over the last five minutes. Counting itself costs nothing more."""

from collections import deque
from collections.abc import Iterable
from typing import Final

LOOK_S: Final = 5.0
"""How often a count is looked at."""

_LOOKS_BETWEEN: Final = 6  # of which the five minutes are made
_KEPT: Final = 10


class CountRate:
    """The rate of one count, per second, and its maximum; its owner has it look every `LOOK_S` seconds."""

    __slots__ = ("_count", "_kept", "_looks", "max", "now")

    def __init__(self) -> None:
        self._begin(0)

    def _begin(self, count: int) -> None:
        self.now = 0.0
        self.max = 0.0
        self._count = count
        self._looks = 0
        self._kept: deque[int] = deque([count], _KEPT)  # the count every 30 s

    def look(self, count: int) -> None:
        if count < self._count:  # it has begun again
            self._begin(0)
        self.now = (count - self._count) / LOOK_S
        self.max = max(self.max, self.now)
        self._count = count
        self._looks += 1
        if self._looks % _LOOKS_BETWEEN == 0:
            self._kept.append(count)

    @property
    def last_5m(self) -> float:
        """Over the last five minutes, or since the beginning where that is not so long ago."""
        looks = min(self._looks, (len(self._kept) - 1) * _LOOKS_BETWEEN + self._looks % _LOOKS_BETWEEN)
        return (self._count - self._kept[0]) / (looks * LOOK_S) if looks else 0.0

    def numbers(self) -> dict[str, float]:
        return {"rate": round(self.now, 2), "rate.max": round(self.max, 2), "rate.last5m": round(self.last_5m, 2)}

    def __repr__(self) -> str:
        return f"CountRate({self.now:g}/s)"


class CountRates:
    """The rates of several counts by their names; owned by what counts, whose ticks come more often than looks."""

    def __init__(self) -> None:
        self._rates: dict[str, CountRate] = {}
        self._next_us = 0

    def tick(self, uptime_us: int, counts: Iterable[tuple[str, int]]) -> None:
        if uptime_us < self._next_us:
            return
        self._next_us = uptime_us + int(LOOK_S * 1_000_000)
        before, self._rates = self._rates, {}
        for name, count in counts:
            rate = self._rates[name] = before.get(name) or CountRate()
            rate.look(count)

    def numbers(self, name: str) -> dict[str, float]:
        return self._rates.get(name, _NONE).numbers()

    def __repr__(self) -> str:
        return f"CountRates({len(self._rates)})"


_NONE: Final = CountRate()
