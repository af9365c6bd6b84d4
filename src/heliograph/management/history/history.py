"""Takes a sample of each node every few seconds, and says what nodes do now."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from heliograph.management.asking.nodes import Node, Nodes
from heliograph.management.asking.numbers import numbers_now, numbers_of
from heliograph.management.history.sample import (
    COUNTERS,
    LONGEST_TURN,
    MEMORY,
    WANTED,
    HistorySample,
    added,
    deltas,
    gauges_of,
    own_totals_of,
    totals_of,
)
from heliograph.management.history.series import GAP_MS, NodePoints, series, step_of
from heliograph.management.history.store import HistoryStore
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

_log = logging.getLogger(__name__)

_THIN_MS: Final = 60_000
_RATE_MS_MIN: Final = 2_000  # rates over less say little
# What the API says of now beside gauges and rates.
_NOW: Final[Mapping[str, str]] = {
    "retained_msg_count": "retained.count",
    "shared_subscriptions": "subscriptions.shared.count",
    "cluster_sessions": "sessions.count",
}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Looked:
    """What a node had counted when it was looked at last.

    Attributes:
        rates: What happened in a second before that look, by name.
    """

    def __init__(self, at_ms: int, totals: Mapping[str, int], rates: Mapping[str, int]) -> None:
        self.at_ms = at_ms
        self.totals = totals
        self.rates = rates


class History:
    """Samples of all nodes; owned by the program, from `start` to `stop`.

    Args:
        store: Where samples are kept.
        now_ms: The time, in milliseconds since the epoch.
    """

    def __init__(self, nodes: Nodes, store: HistoryStore, now_ms: Callable[[], int] = _now_ms) -> None:
        self._nodes = nodes
        self._store = store
        self._now_ms = now_ms
        self._looked: dict[str, Looked] = {}
        self._interval_s = 10
        self._opening: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._thinned_ms = 0
        self._is_failing = False

    def start(self, interval_s: int) -> None:
        """Begin to take samples so often."""
        self._interval_s = interval_s
        self._opening = asyncio.create_task(self._open(), name="file of the history")
        self._task = asyncio.create_task(self._run(), name="history")

    def use(self, interval_s: int) -> None:
        """Take samples so often from the next one on."""
        self._interval_s = interval_s

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._opened()
        await asyncio.to_thread(self._store.close)

    async def read(self, nodes: list[Node], latest_s: int | None) -> list[HistorySample]:
        """The samples of some nodes, added up; oldest first.

        Args:
            latest_s: Of so many seconds; None for all.

        Raises:
            sqlite3.Error: They cannot be read.
        """
        await self._opened()
        since_ms = 0 if latest_s is None else self._now_ms() - latest_s * 1000
        found = [await asyncio.to_thread(self._store.read, node.name, since_ms) for node in nodes]
        return added(sample for samples in found for sample in samples)

    async def points(self, nodes: list[Node], names: Sequence[str], seconds: int, most: int) -> dict[str, Any]:
        """What some nodes did in the last seconds, as charts show it.

        Args:
            names: Of `series.NAMES`.
            most: So many points.

        Raises:
            sqlite3.Error: The samples cannot be read.
        """
        await self._opened()
        now_ms, step_s = self._now_ms(), step_of(seconds, most)
        since_ms = now_ms - seconds * 1000
        found = [NodePoints(names, since_ms, now_ms, step_s) for _ in nodes]
        for node, points in zip(nodes, found, strict=True):
            await asyncio.to_thread(self._store.each, node.name, since_ms - GAP_MS, points.add)
        return series(found, names, step_s)

    async def clear(self) -> None:
        """Forget all samples.

        Raises:
            sqlite3.Error: They cannot be forgotten.
        """
        await self._opened()
        await asyncio.to_thread(self._store.clear)

    async def current(self, node: Node) -> dict[str, int]:
        """What a node has and does now."""
        now_ms = self._now_ms()
        numbers = await numbers_of(node, (*WANTED, *_NOW.values()))
        looked = self._looked.get(node.name)
        rates: Mapping[str, int] = dict.fromkeys(totals_of({}), 0)
        if looked is not None:
            passed_ms = now_ms - looked.at_ms
            rates = looked.rates
            if passed_ms >= _RATE_MS_MIN:
                rates = _rates(deltas(totals_of(numbers), looked.totals), passed_ms)
        return {
            **gauges_of(numbers),
            **{_rate_name(name): rate for name, rate in rates.items()},
            **{name: int(numbers.get(metric, 0)) for name, metric in _NOW.items()},
        }

    async def take(self) -> None:
        """Take a sample of each node that answers, at the last full interval."""
        interval_ms = self._interval_s * 1000
        for node in self._nodes.all():
            now_ms = self._now_ms()
            try:
                numbers, measured = await numbers_now(node, WANTED, self._interval_s)
            except (UnreachableError, RpcError):
                continue  # there is no sample of a node that does not answer
            totals, before = {**totals_of(numbers), **own_totals_of(numbers)}, self._looked.get(node.name)
            happened = deltas(totals, totals if before is None else before.totals)
            rates = _rates(happened, interval_ms if before is None else max(1, now_ms - before.at_ms))
            self._looked[node.name] = Looked(now_ms, totals, {name: rates[name] for name in COUNTERS})
            own = {name: count for name, count in happened.items() if count or name in COUNTERS}
            process = {LONGEST_TURN: int(measured.longest_turn_s * 1e6), MEMORY: measured.memory_used}
            sample = HistorySample(now_ms // interval_ms * interval_ms, {**gauges_of(numbers), **own, **process})
            await asyncio.to_thread(self._keep, node.name, sample, now_ms)

    def _keep(self, node: str, sample: HistorySample, now_ms: int) -> None:
        try:
            self._store.add(node, sample)
            if abs(now_ms - self._thinned_ms) >= _THIN_MS:
                self._thinned_ms = now_ms
                self._store.thin(now_ms)
            self._is_failing = False
        except sqlite3.Error as error:
            if not self._is_failing:  # once, not for each sample
                _log.error("samples of the history cannot be kept: %s", error)
            self._is_failing = True

    async def _open(self) -> None:
        try:
            await asyncio.to_thread(self._store.open)
        except (sqlite3.Error, OSError) as error:
            _log.error("there is no history: its file cannot be used: %s", error)

    async def _opened(self) -> None:
        """Wait until the file is open, or cannot be: a request at the start finds what there is."""
        if self._opening is not None:
            await asyncio.wait({self._opening})

    async def _run(self) -> None:
        await self._opened()
        while True:
            try:
                await self.take()
            except Exception:  # noqa: BLE001 - the next sample may be taken, whatever it is
                _log.exception("a sample could not be taken")
            interval_ms = self._interval_s * 1000
            await asyncio.sleep((interval_ms - self._now_ms() % interval_ms) / 1000)  # until the next full interval


def _rates(happened: Mapping[str, int], passed_ms: int) -> dict[str, int]:
    return {name: round(count * 1000 / passed_ms) for name, count in happened.items()}


def _rate_name(name: str) -> str:
    return f"{name}_msg_rate" if name in ("received", "sent", "dropped") else f"{name}_rate"
