"""One sample of a node: how many of a thing there are, and how much happened since the sample before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.management.asking.broker_numbers import DROPS

#: How many there are, by EMQX's name, with the metric of the node.
GAUGES: Final[Mapping[str, str]] = {
    "connections": "sessions.count",
    "live_connections": "live_connections.count",
    "subscriptions": "subscriptions.count",
    "subscriptions_durable": "subscriptions.parked",
    "topics": "topics.count",
    "disconnected_durable_sessions": "durable_sessions.asleep",
}
#: What happens, likewise.
COUNTERS: Final[Mapping[str, str]] = {
    "received": "messages.received",
    "sent": "messages.sent",
    "dropped": "messages.dropped",
    "validation_succeeded": "messages.validation_succeeded",
    "validation_failed": "messages.validation_failed",
    "transformation_succeeded": "messages.transformation_succeeded",
    "transformation_failed": "messages.transformation_failed",
    "persisted": "messages.persisted",
}
#: What the history of the dashboard has besides: what happens,
OWN_COUNTERS: Final[Mapping[str, str]] = {
    "bytes_received": "bytes.received",
    "bytes_sent": "bytes.sent",
    **{f"dropped.{reason}": metric for reason, metric in DROPS.items()},
}
#: and how much there was: the most of a turn of the event loop, in microseconds, and memory.
LONGEST_TURN: Final = "longest_turn_us"
MEMORY: Final = "memory_bytes"
_SHOWN: Final = frozenset({*GAUGES, *COUNTERS})
_SUMMED: Final = (*COUNTERS, *OWN_COUNTERS)
_AWAY: Final = "sessions.away"
_DURABLE: Final = "disconnected_durable_sessions"

#: The metrics that a sample is made of.
WANTED: Final = (*GAUGES.values(), *COUNTERS.values(), *OWN_COUNTERS.values(), _AWAY)


@dataclass(frozen=True, slots=True)
class HistorySample:
    """A sample of a node, or the sum over nodes.

    Attributes:
        at_ms: When, in milliseconds since the epoch.
        values: By the names of `GAUGES` and `COUNTERS`, and those of `OWN_COUNTERS` that are not 0.
    """

    at_ms: int
    values: Mapping[str, int]

    def shown(self) -> dict[str, int]:
        return {"time_stamp": self.at_ms, **{name: self.values[name] for name in self.values if name in _SHOWN}}


def gauges_of(numbers: Mapping[str, float]) -> dict[str, int]:
    found = {name: int(numbers.get(metric, 0)) for name, metric in GAUGES.items()}
    if GAUGES[_DURABLE] in numbers:  # sessions are durable: those without a client are asleep, or still in memory
        found[_DURABLE] += int(numbers.get(_AWAY, 0))
    return found


def totals_of(numbers: Mapping[str, float]) -> dict[str, int]:
    """What has happened since the start of the node."""
    return {name: int(numbers.get(metric, 0)) for name, metric in COUNTERS.items()}


def own_totals_of(numbers: Mapping[str, float]) -> dict[str, int]:
    """The same of what only the dashboard shows."""
    return {name: int(numbers.get(metric, 0)) for name, metric in OWN_COUNTERS.items()}


def deltas(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """What has happened between two looks; a counter that fell has begun again with its node."""
    return {name: count - before[name] if count >= before.get(name, 0) else count for name, count in now.items()}


def merged(samples: Iterable[HistorySample]) -> HistorySample:
    """One sample in the place of several that follow each other: the last gauges, and sums of what happened."""
    every = list(samples)
    last = every[-1]
    sums = {name: sum(one.values.get(name, 0) for one in every) for name in _SUMMED}
    kept = {name: count for name, count in sums.items() if count or name in COUNTERS}
    longest = max(one.values.get(LONGEST_TURN, 0) for one in every)
    return HistorySample(last.at_ms, {**last.values, **kept, **({LONGEST_TURN: longest} if longest else {})})


def added(samples: Iterable[HistorySample]) -> list[HistorySample]:
    """The sums over nodes of samples of one time, oldest first."""
    found: dict[int, dict[str, int]] = {}
    for one in samples:
        values = found.setdefault(one.at_ms, {})
        for name, value in one.values.items():
            before = values.get(name, 0)
            values[name] = max(before, value) if name == LONGEST_TURN else before + value
    return [HistorySample(at_ms, found[at_ms]) for at_ms in sorted(found)]
