"""What can be asked of the process of a node: processor, memory by owner, files, turns of the event loop."""

import asyncio
import os
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from heliograph.control.proto_v1 import vm as proto
from heliograph.control.slices import in_slices
from heliograph.observe.metric import SUM, Sample
from heliograph.rpc.methods import Call, Method, NoArgs

_FILES: Final = Path("/proc/self/fd")
_IO: Final = Path("/proc/self/io")
_LAG: Final = "loop.lag"


class MemoryAccount(Protocol):
    """Counts what holds memory; `node.memory` implements it."""

    stage: int

    @property
    def limit(self) -> int | None:
        """Bytes that the process may have; None for no limit."""

    def accounting(self) -> Iterator[tuple[int, Mapping[str, int]] | None]:
        """Count in pieces: None for each but the last, which is what the process has, and how much each owner."""


class LongTurnSeen(Protocol):
    """A turn of the event loop that took long; `node.turn_watch` has them."""

    @property
    def ended_us(self) -> int:
        """When it ended."""

    @property
    def seconds(self) -> float:
        """How long it took."""

    @property
    def ran(self) -> str:
        """What ran in it."""


def methods(
    memory: MemoryAccount,
    loop: Callable[[], Iterable[Sample]],
    uptime_s: Callable[[], float],
    long_turns: Callable[[], Iterable[LongTurnSeen]],
) -> list[Method]:
    """What can be asked: `vm.load`, `vm.memory`, `vm.io`, `vm.loop`, `vm.turns`.

    Args:
        memory: What holds its memory.
        loop: The samples of the event loop.
        uptime_s: Seconds since the node was ready.
        long_turns: A hundred turns of the event loop at the most, which took long; the newest last.
    """

    def turns(args: NoArgs, call: Call) -> Iterator[list[proto.LongTurnRow]]:
        rows = [proto.LongTurnRow(one.ended_us, one.seconds, one.ran) for one in long_turns()]
        return in_slices(reversed(rows))

    answers = VmAnswers(memory, loop, uptime_s)
    return [
        proto.VM_LOAD.by(answers.load),
        proto.VM_MEMORY.by(answers.memory),
        proto.VM_IO.by(answers.io),
        proto.VM_LOOP.by(answers.loop),
        proto.VM_TURNS.by(turns),
    ]


class VmAnswers:
    """Answers what is asked of the process; owned by the control socket.

    Args:
        memory: What holds its memory.
        loop: The samples of the event loop.
        uptime_s: Seconds since the node was ready.
    """

    def __init__(
        self, memory: MemoryAccount, loop: Callable[[], Iterable[Sample]], uptime_s: Callable[[], float]
    ) -> None:
        self._memory = memory
        self._loop = loop
        self._uptime_s = uptime_s
        self._asked_at = time.monotonic() - uptime_s()
        self._asked_cpu_s = 0.0

    def load(self, args: NoArgs, call: Call) -> proto.VmLoad:
        usage, now, cpu_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic(), _cpu_s()
        percent = 100 * (cpu_s - self._asked_cpu_s) / max(0.001, now - self._asked_at)
        self._asked_at, self._asked_cpu_s = now, cpu_s
        return proto.VmLoad(
            os.getpid(),
            self._uptime_s(),
            [round(average, 2) for average in os.getloadavg()],
            len(os.sched_getaffinity(0)),
            threading.active_count(),
            round(usage.ru_utime, 3),
            round(usage.ru_stime, 3),
            round(percent, 1),
        )

    async def memory(self, args: NoArgs, call: Call) -> proto.VmMemory:
        """Answer `vm.memory`: who holds memory, counted in pieces."""
        for pieces in in_slices(self._memory.accounting()):
            for used, held in pieces:
                return proto.VmMemory(used, self._memory.limit or 0, self._memory.stage, dict(held))
            await asyncio.sleep(0)
        raise AssertionError("the account of memory came to no end")

    async def io(self, args: NoArgs, call: Call) -> proto.VmIo:
        """Answer `vm.io`: open files, and what was read and written."""
        # Where the system does not say how many files are open they are counted, which takes long where they are many.
        open_files = await asyncio.to_thread(_open_files)
        counts = _io_counts()
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return proto.VmIo(open_files, most, counts.get("read_bytes", 0), counts.get("write_bytes", 0))

    def loop(self, args: NoArgs, call: Call) -> proto.VmLoop:
        samples = list(self._loop())
        ticks, before = [], 0
        for sample in samples:
            if sample.name == _LAG and sample.labels[-1] != SUM:
                ticks.append(proto.LoopBucket(sample.labels[-1], int(sample.value) - before))
                before = int(sample.value)
        numbers = {sample.name: sample.value for sample in samples}
        return proto.VmLoop(numbers["loop.last_lag_s"], numbers["loop.longest_lag_s"], ticks)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _open_files() -> int:
    """How many files are open; -1 where that cannot be known."""
    try:
        return _FILES.stat().st_size or len(os.listdir(_FILES))
    except OSError:
        return -1


def _io_counts() -> Mapping[str, int]:
    try:
        lines = _IO.read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
