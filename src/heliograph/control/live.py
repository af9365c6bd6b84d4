"""What a node counts now, in one answer, for those who watch it: asked every second while a page is open."""

import asyncio
import resource
from collections.abc import Callable
from typing import Protocol

from heliograph.control.proto_v1 import live as proto
from heliograph.control.proto_v1.metrics import MetricSample
from heliograph.control.slices import in_slices
from heliograph.parts import Parts
from heliograph.rpc.methods import Call, Method


class MemoryStanding(Protocol):
    """How much memory a process has; `node.memory` implements it."""

    stage: int

    @property
    def used(self) -> int:
        """Bytes that it had at the last tick."""

    @property
    def limit(self) -> int | None:
        """Bytes that it may have; None for no limit."""


def methods(
    parts: Parts,
    memory: MemoryStanding,
    longest_turn_s: Callable[[int], float],
    now_us: Callable[[], int],
    uptime_s: Callable[[], int],
) -> list[Method]:
    """`live.numbers`.

    Args:
        memory: What the process has; who holds it takes long to count, and is not asked.
        longest_turn_s: The longest turn of the event loop of so many last seconds.
        now_us: The monotonic clock, in microseconds.
        uptime_s: Seconds since the node was ready.
    """

    async def numbers(args: proto.LiveWanted, call: Call) -> proto.LiveNumbers:
        names = frozenset(args.names)
        found: list[MetricSample] = []
        if names:
            for pieces in in_slices(parts.sample_pieces(names=names)):
                found += [MetricSample(one.name, one.value, list(one.labels)) for one in pieces if one.name in names]
                await asyncio.sleep(0)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return proto.LiveNumbers(
            now_us(),
            uptime_s(),
            memory.used,
            memory.limit or 0,
            memory.stage,
            round(usage.ru_utime + usage.ru_stime, 3),
            round(longest_turn_s(args.turns_s), 6),
            found,
        )

    return [proto.LIVE_NUMBERS.by(numbers)]
