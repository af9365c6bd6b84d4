"""The subjects `overview` and `node`: what the broker has and does."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

from heliograph.control.proto_v1.live import LIVE_NUMBERS, LiveNumbers, LiveWanted
from heliograph.management.asking.broker_numbers import COUNTS, DROPS, RATES
from heliograph.management.asking.nodes import Node, Nodes
from heliograph.management.live.subject import LiveSubject, Look
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

Key = tuple[str, ...]


class Numbers:
    """What a node reported at one look, and since the look before.

    Attributes:
        measured: All that it reported.
        cpu_percent: Processor time since the look before, 100 is one core; None at the first look.
    """

    def __init__(self, measured: LiveNumbers, before: "Numbers | None") -> None:
        self.measured = measured
        self._values: dict[Key, float] = {(one.name, *one.labels): one.value for one in measured.samples}
        passed_us = 0 if before is None else measured.at_us - before.measured.at_us
        self._before: dict[Key, float] = {}
        self._passed_s = 0.0
        self.cpu_percent: float | None = None
        # A node that was restarted counts from zero.
        if before is not None and passed_us > 0 and measured.cpu_s >= before.measured.cpu_s:
            self._before, self._passed_s = before._values, passed_us / 1e6
            self.cpu_percent = round(100 * (measured.cpu_s - before.measured.cpu_s) / self._passed_s, 1)

    def value(self, *key: str) -> float:
        return self._values.get(key, 0)

    def count(self, *key: str) -> int:
        return int(self.value(*key))

    def rate(self, *key: str) -> float | None:
        """By how much it grows in a second; None at the first look."""
        if not self._passed_s:
            return None
        return round(max(0.0, self.value(*key) - self._before.get(key, 0)) / self._passed_s, 1)

    def labelled(self, name: str) -> list[Key]:
        """The values of the labels that a metric has numbers for."""
        return [key[1:] for key in self._values if key[0] == name]


class NumbersLook:
    """Looks at the numbers of one node again and again; owned by a subject.

    Args:
        names: Of the metrics.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._wanted = LiveWanted(tuple(names))
        self._last: Numbers | None = None

    async def at(self, node: Node) -> Numbers:
        """Its numbers now."""
        measured = await node.ask(LIVE_NUMBERS(self._wanted))
        self._last = Numbers(measured, self._last)
        return self._last


_OF_BOTH: Final = (*COUNTS.values(), *RATES.values(), *DROPS.values())
STORAGE_RATES: Final = {"commits": "storage.commits", "messages": "storage.messages"}
STORAGE: Final = {
    "is_open": "storage.open",
    "last_commit_s": "storage.last_commit_s",
    "buffered_bytes": "storage.buffered_bytes",
    "bytes": "storage.bytes",
    "streams": "storage.streams",
    "generations": "storage.generations",
    "stalls": "storage.stalls",
    "refused_messages": "storage.refused_messages",
}
READER: Final = {
    "is_running": "reader.running",
    "restarts": "reader.restarts",
    "damaged_places": "reader.damaged_places",
}
_LISTENERS: Final = "listeners.current_connections"
_OF_NODE: Final = (*_OF_BOTH, *STORAGE_RATES.values(), *STORAGE.values(), *READER.values(), _LISTENERS)


def _overview(nodes: Nodes) -> Look:
    look = _EachNode(nodes, _OF_BOTH)

    async def take() -> dict[str, Any]:
        return overview_of(await look.take())

    return take


def _node(nodes: Nodes) -> Look:
    look = _EachNode(nodes, _OF_NODE)

    async def take() -> dict[str, Any]:
        return {"at": _now_ms(), "nodes": [_shown(name, found, _details) for name, found in await look.take()]}

    return take


SUBJECTS: Final = (
    LiveSubject("overview", "metrics:read", 1.0, _overview),
    LiveSubject("node", "metrics:read", 1.0, _node),
)


class _EachNode:
    """Looks at every node; one that does not answer disturbs no other."""

    def __init__(self, nodes: Nodes, names: tuple[str, ...]) -> None:
        self._looks = [(node, NumbersLook(names)) for node in nodes.all()]

    async def take(self) -> list[tuple[str, Numbers | None]]:
        found = await asyncio.gather(*(_looked(node, look) for node, look in self._looks))
        errors = [one for one in found if isinstance(one, Exception)]
        if errors and len(errors) == len(found):
            raise errors[0]
        return [
            (node.name, one if isinstance(one, Numbers) else None)
            for (node, _), one in zip(self._looks, found, strict=True)
        ]


async def _looked(node: Node, look: NumbersLook) -> Numbers | RpcError | UnreachableError:
    try:
        return await look.at(node)
    except (RpcError, UnreachableError) as error:
        return error


def overview_of(found: list[tuple[str, Numbers | None]]) -> dict[str, Any]:
    answered = [numbers for _, numbers in found if numbers is not None]
    drops = {name: _summed(answered, metric) for name, metric in DROPS.items()}
    rates = {name: _summed(answered, metric) for name, metric in RATES.items()}
    return {
        "at": _now_ms(),
        **{name: sum(one.count(metric) for one in answered) for name, metric in COUNTS.items()},
        "rates": {**rates, "dropped": _sum(drops.values())},
        "drops": drops,
        "longest_turn_s": max(one.measured.longest_turn_s for one in answered),
        "memory_bytes": sum(one.measured.memory_used for one in answered),
        "memory_limit_bytes": sum(one.measured.memory_limit for one in answered),
        "nodes": [_shown(name, numbers) for name, numbers in found],
    }


def _shown(name: str, found: Numbers | None, details: Any = None) -> dict[str, Any]:
    if found is None:
        return {"node": name, "answers": False}
    measured = found.measured
    return {
        "node": name,
        "answers": True,
        "uptime_s": measured.uptime_s,
        "connections": found.count(COUNTS["connections"]),
        "sessions": found.count(COUNTS["sessions"]),
        "received": found.rate(RATES["received"]),
        "sent": found.rate(RATES["sent"]),
        "cpu_percent": found.cpu_percent,
        "longest_turn_s": measured.longest_turn_s,
        "memory_bytes": measured.memory_used,
        "memory_limit_bytes": measured.memory_limit,
        "memory_stage": measured.memory_stage,
        **({} if details is None else details(found)),
    }


def _details(found: Numbers) -> dict[str, Any]:
    drops = {name: found.rate(metric) for name, metric in DROPS.items()}
    rates = {name: found.rate(metric) for name, metric in RATES.items()}
    return {
        **{name: found.count(metric) for name, metric in COUNTS.items()},
        "rates": {**rates, "dropped": _sum(drops.values())},
        "drops": drops,
        "storage": [
            {
                "database": database,
                **{name: found.value(metric, database) for name, metric in STORAGE.items()},
                **{f"{name}_rate": found.rate(metric, database) for name, metric in STORAGE_RATES.items()},
            }
            for (database,) in found.labelled(STORAGE["is_open"])
        ],
        "reader": {name: found.count(metric) for name, metric in READER.items()},
        "listeners": [
            {"type": kind, "name": name, "connections": found.count(_LISTENERS, kind, name)}
            for kind, name in found.labelled(_LISTENERS)
        ],
    }


def _summed(answered: list[Numbers], metric: str) -> float | None:
    return _sum([one.rate(metric) for one in answered])


def _sum(rates: Any) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 1) if known else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
