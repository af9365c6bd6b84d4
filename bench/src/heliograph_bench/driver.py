"""Sockets and time for the load clients: opens the connections, publishes at the asked rate, waits for the rest.

The conversation itself is in `clients`. One run is one `Run` in one process on one event loop (uvloop).
"""

import asyncio
import gc
import heapq
import resource
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Any, Final

import uvloop

from heliograph_bench.clients import Client
from heliograph_bench.latency import Latencies
from heliograph_bench.links import ClientLink, Flow, PublisherLink, SubscriberLink, now_us
from heliograph_bench.publisher import Publisher
from heliograph_bench.report import Result, RunProgress
from heliograph_bench.workload import Shape, Workload, WorkloadError

_CONNECTING_AT_ONCE: Final = 200
_TICK_S: Final = 0.001
_LOOK_S: Final = 0.05
_SPARE_DESCRIPTORS: Final = 64
_STALLED_S: Final = 10.0
_GOODBYE_S: Final = 3.0
_DROPPED_S: Final = 0.5
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def execute(workload: Workload, on_progress: Callable[[RunProgress], None] | None = None) -> Result:
    """Carry out a run and say what came of it. Ctrl-C (and SIGTERM) end it early and orderly."""
    _allow_descriptors(workload.publishers + workload.subscribers + workload.idle)
    return uvloop.run(Run(workload, on_progress).carry_out())


class Run:
    """One run from the first connection to the last message, for one `carry_out`."""

    def __init__(self, workload: Workload, on_progress: Callable[[RunProgress], None] | None = None) -> None:
        self._workload = workload
        self._on_progress = on_progress
        self._result = Result(workload, Latencies(), Latencies())
        subscribers, publishers, idle = workload.build(self._result.latencies)
        self._subscribers = subscribers
        flows = self._flows = self._make_flows(publishers)
        self._sub_links = [
            SubscriberLink(client, self._fail, flow) for client, flow in zip(subscribers, cycle(flows), strict=False)
        ]
        self._pub_links = [
            PublisherLink(client, self._fail, workload.count, workload.rate, flow, workload.receivers)
            for client, flow in zip(publishers, cycle(flows), strict=False)
        ]
        self._idle_links = [ClientLink(client, self._fail) for client in idle]
        self._stop = asyncio.Event()
        self._endpoint = workload.endpoint()
        self._started_us = 0
        self._fault: Exception | None = None

    def _make_flows(self, publishers: list[Publisher]) -> Sequence[Flow | None]:
        """One flow per pair, or one for all, or none where acknowledgements or a rate hold the publishers back."""
        workload = self._workload
        limit = workload.flow_limit(publishers[0].packet_bytes) if publishers else 0
        if not limit:
            return [None]
        if workload.shape is Shape.PAIR:
            return [Flow(limit) for _ in publishers]
        return [Flow(limit * workload.subscribers)]

    @property
    def _links(self) -> list[ClientLink]:
        return [*self._sub_links, *self._pub_links, *self._idle_links]

    async def carry_out(self) -> Result:
        """Connect, publish, wait, disconnect."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_fault)
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop.set)
        gc.freeze()  # thousands of long-lived clients need not be looked at again
        try:
            if await self._connect_all():
                await self._load()
        finally:
            await self._disconnect_all()
            for number in _STOP_SIGNALS:
                loop.remove_signal_handler(number)
            gc.unfreeze()
        if self._fault is not None:
            raise self._fault
        return self._result

    def _fail(self, link: ClientLink, cause: str) -> None:
        self._result.failures[cause] += 1

    def _on_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception in a protocol callback is our own fault: end the run and raise it from `carry_out`."""
        error = context.get("exception")
        self._fault = error if isinstance(error, Exception) else RuntimeError(str(context.get("message")))
        self._stop.set()

    async def _connect_all(self) -> bool:
        """Open every connection; whether the run can go on."""
        result = self._result
        began = time.perf_counter()
        pending = iter(enumerate(self._links))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_CONNECTING_AT_ONCE, len(self._links))):
                group.create_task(self._connect_some(pending, began))
        result.connect_seconds = time.perf_counter() - began
        result.connected = sum(link.client.ready for link in self._links)
        return result.connected > 0 and (not result.failures or self._workload.shape is Shape.CONNECT)

    async def _connect_some(self, pending: Iterable[tuple[int, ClientLink]], began: float) -> None:
        """One of the workers that share the list of connections to open."""
        workload = self._workload
        for number, link in pending:
            if self._stop.is_set() or (self._result.failures and workload.shape is not Shape.CONNECT):
                return
            if workload.connect_rate:
                await asyncio.sleep(max(began + number / workload.connect_rate - time.perf_counter(), 0))
            opened = now_us()
            if await link.open(self._endpoint, workload.connect_timeout_s):
                self._result.connect_latencies.record(max(now_us() - opened, 0))

    async def _load(self) -> None:
        workload, result = self._workload, self._result
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        self._started_us = now_us()
        for link in self._pub_links:
            link.start(self._started_us, workload.duration_s)
        pacing = asyncio.create_task(self._pace()) if workload.rate and self._pub_links else None
        try:
            await self._wait_for_the_end(began)
        finally:
            if pacing is not None:
                pacing.cancel()
        if workload.shape is Shape.PUB and not workload.qos:
            await self._flush()
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
        result.tool_cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / wall
        self._tally()
        result.finish(self._started_us, self._first_us(), self._last_us(), wall)

    async def _pace(self) -> None:
        """Wake every publisher when its next message is due.

        Timers of the event loop count milliseconds: what is due within one leaves together, unless it is to be precise.
        """
        precise = self._workload.precise
        least_us = 1.0 if precise else _TICK_S * 1e6
        due: list[tuple[float, int]] = [(link.next_due_us, number) for number, link in enumerate(self._pub_links)]
        heapq.heapify(due)
        while due:
            now = now_us()
            while due and due[0][0] <= now:
                _, number = due[0]
                link = self._pub_links[number]
                link.pump(now)
                if link.finished:
                    heapq.heappop(due)
                else:
                    heapq.heapreplace(due, (max(link.next_due_us, now + least_us), number))
            is_soon = precise and due and due[0][0] < now + 2 * _TICK_S * 1e6
            await asyncio.sleep(0 if is_soon else _TICK_S)

    async def _wait_for_the_end(self, began: float) -> None:
        """Look around every now and then until everything has arrived, nothing more comes, or time is up."""
        progress = RunProgress(0.0, 0, 0, 0, 0)
        moved_at, total = began, -1
        ping_every = self._ping_interval()
        ping_at = began + ping_every
        while not self._stop.is_set():
            await asyncio.sleep(_LOOK_S)
            now = time.perf_counter()
            self._tally()
            for publisher in self._pub_links:
                publisher.look_at_the_clock(now_us())
            if self._is_complete(now - began):
                return
            moved = self._result.sent + self._result.acked + self._result.received
            if moved != total:
                moved_at, total = now, moved
            elif self._is_over(now - moved_at):
                return
            if now >= ping_at:
                ping_at = now + ping_every
                for link in self._links:
                    link.ping()
            if self._on_progress is not None and now - began >= progress.seconds + 1:
                progress = self._progress(now - began, progress)

    def _is_complete(self, seconds: float) -> bool:
        workload, result = self._workload, self._result
        if not any(link.is_open for link in self._links):
            return True
        if not self._pub_links:
            out_of_time = workload.duration_s is not None and seconds >= workload.duration_s
            return out_of_time or (workload.count is not None and 0 < workload.count <= result.received)
        if not self._has_only_to_drain() or not all(link.settled for link in self._pub_links):
            return False
        return result.received >= (result.expected or 0)

    def _is_over(self, still_s: float) -> bool:
        """Whether to give up after so many seconds in which nothing moved."""
        if self._has_only_to_drain():
            return still_s > self._workload.drain_s
        if still_s > _DROPPED_S:
            for flow in self._flows:
                if flow is not None:
                    flow.give_up(now_us())
        stalled_s = _STALLED_S + 2 / (self._workload.rate or 1)
        if self._pub_links and still_s > stalled_s:
            self._result.failures[f"the broker took and acknowledged nothing for {stalled_s:g} s"] += 1
            return True
        return False

    def _has_only_to_drain(self) -> bool:
        return bool(self._pub_links) and all(link.finished for link in self._pub_links)

    async def _flush(self) -> None:
        """Without receivers, wait until the broker has read everything: then it answers a PINGREQ."""
        asked = now_us()
        for link in self._pub_links:
            link.ping()
        limit_s = self._workload.drain_s
        waiting = [link for link in self._pub_links if link.is_open]
        while waiting and now_us() < asked + limit_s * 1e6 and not self._stop.is_set():
            await asyncio.sleep(_TICK_S)
            waiting = [link for link in waiting if link.is_open and link.client.pong_us < asked]
        if waiting and not self._stop.is_set():
            self._result.failures[f"the broker did not answer a PINGREQ within {limit_s:g} s"] += len(waiting)
        for link in self._pub_links:
            link.client.last_us = link.client.pong_us

    def _ping_interval(self) -> float:
        """Half the shortest keepalive that holds, in seconds."""
        granted = [link.client.limits.keepalive_s for link in self._links]
        kept = [self._workload.keepalive_s if seconds is None else seconds for seconds in granted]
        return min((seconds for seconds in kept if seconds), default=float("inf")) / 2

    def _tally(self) -> None:
        result = self._result
        publishers: list[Publisher] = [link.client for link in self._pub_links]
        result.sent = sum(client.sent for client in publishers)
        result.acked = sum(client.acked for client in publishers)
        result.rejected = sum(client.rejected for client in publishers)
        result.received = sum(client.received for client in self._subscribers)
        result.expected = self._workload.expected(result.sent)

    def _first_us(self) -> int:
        return min((client.first_us for client in self._subscribers if client.first_us), default=0)

    def _last_us(self) -> int:
        clients: list[Client] = [link.client for link in self._links]
        return max((client.last_us for client in clients), default=0)

    def _progress(self, seconds: float, last: RunProgress) -> RunProgress:
        result = self._result
        progress = RunProgress(seconds, result.sent, result.acked, result.received, sum(x.is_open for x in self._links))
        if self._on_progress is not None:
            self._on_progress(progress.since(last))
        return progress

    async def _disconnect_all(self) -> None:
        for link in self._links:
            link.close()
        try:
            async with asyncio.timeout(_GOODBYE_S):
                for link in self._links:
                    await link.closed()
        except TimeoutError:  # the broker does not read; what is still unsent is not wanted
            for link in self._links:
                link.abort()


def _allow_descriptors(clients: int) -> None:
    """Raise this process's limit of open files to what the clients need."""
    needed = clients + _SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise WorkloadError(
            f"{clients} clients need {needed} open files, but this process may open {hard}: "
            f"raise the limit (ulimit -Hn {needed}) or use fewer clients"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
