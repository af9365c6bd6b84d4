"""Watches the machine and the process of a node: processors, memory, open files, turns of the event loop."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from heliograph.config.settings import Config
from heliograph.node.clock import uptime_us
from heliograph.node.kernel import KernelPart
from heliograph.node.loop_probe import LoopProbe
from heliograph.node.memory_limit import limit_bytes, resident
from heliograph.node.metrics.process import TURNS
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Sample
from heliograph.parts import Change, Part, each
from heliograph.settings.records import microseconds
from heliograph.settings.units import Percentage
from heliograph.transport import open_files

_log = logging.getLogger(__name__)
_CPU_ALARM: Final = "high_cpu_usage"
_SYSTEM_ALARM: Final = "high_system_memory_usage"
_PROCESS_ALARM: Final = "high_process_memory_usage"
_FILES_ALARM: Final = "too_many_open_files"
_EVERYTHING: Final = Percentage(100)
_ROOT: Final = Path("/")
_IDLE: Final = slice(3, 5)  # what a line of /proc/stat counts as idle, and as waiting for disks
_COUNTED: Final = 8  # columns behind these are parts of others


class SysmonPart(Part):
    """Raises alarms while too much is used of what the node has, by the thresholds of `sysmon`; owned by the node."""

    name = "sysmon"
    metrics = TURNS
    needs = ("kernel",)
    roots = ("sysmon.os", "sysmon.vm")

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        self.probe = LoopProbe()
        self._settings = config.sysmon
        self._kernel = kernel
        self._due_us: dict[str, int] = {}  # when each of its checks is made again
        self._turns = self.probe.count()
        self._long_turns = BoundedLog(_log, uptime_us)
        self._processors: Processors

    async def start(self) -> None:
        self._processors = Processors()
        self.probe.start()

    async def stop(self) -> None:
        self.probe.stop()

    async def check(self, new: Config) -> Change | None:
        if new.sysmon == self._settings:
            return None

        def use() -> None:
            self._settings = new.sysmon
            self._due_us = dict.fromkeys((_CPU_ALARM, _SYSTEM_ALARM, _FILES_ALARM), 0)

        return Change(use)

    def samples(self) -> list[Sample]:
        return self.probe.turns.samples("loop.turn")

    def tick(self, uptime_us: int) -> None:
        machine, process = self._settings.os, self._settings.vm
        checks = (
            (_CPU_ALARM, machine.cpu_check_interval, self._check_processors),
            (_SYSTEM_ALARM, machine.mem_check_interval, self._check_memory),
            (_FILES_ALARM, process.process_check_interval, self._check_files),
        )
        due = []
        for name, interval_s, check in checks:
            if interval_s is None:
                self._end_memory_alarms()
            elif name not in self._due_us:  # use is measured from one look to the next
                self._due_us[name] = uptime_us + microseconds(interval_s)
            elif uptime_us >= self._due_us[name]:
                self._due_us[name] = uptime_us + microseconds(interval_s)
                due.append(check)
        each((*due, self._tell_long_turns), lambda check: check())

    def _tell_long_turns(self) -> None:
        long_s = self._settings.vm.long_schedule
        longest_s = self._turns.take().longest_s
        if long_s is not None and longest_s > long_s:
            self._long_turns.warn("a turn of the event loop took %.2f s at least, while all clients waited", longest_s)

    def _check_processors(self) -> None:
        machine, thread = self._processors.look()
        limits = self._settings.os
        usage = max(machine, thread)
        of = "a processor by the event loop" if thread >= machine else "all processors"
        self._judge(
            _CPU_ALARM,
            usage,
            limits.cpu_high_watermark,
            limits.cpu_low_watermark,
            f"{usage:.1f} % of {of} are used",
            {"machine": machine, "event_loop": thread},
        )

    def _check_memory(self) -> None:
        limits = self._settings.os
        of_machine = memory_used()
        high = limits.sysmem_high_watermark
        self._judge(_SYSTEM_ALARM, of_machine, high, high, f"{of_machine:.1f} % of the machine's memory are used", {})
        used, whole = resident().all_bytes, limit_bytes(_EVERYTHING) or 1
        share, high = round(100 * used / whole, 1), limits.procmem_high_watermark
        text = f"the node has {used >> 20} MiB, {share:.1f} % of the memory that it could have"
        self._judge(_PROCESS_ALARM, share, high, high, text, {"used": used, "total": whole})

    def _check_files(self) -> None:
        limits, count, most = self._settings.vm, open_files.count(), open_files.limit()
        usage = round(100 * count / most, 1)
        text = (
            f"{count} of {most} files that may be open are, with one for each connection. Raise that limit "
            "(ulimit -n), or bound connections with max_connections"
        )
        details = {"open_files": count, "open_files_max": most}
        self._judge(_FILES_ALARM, usage, limits.process_high_watermark, limits.process_low_watermark, text, details)

    def _judge(
        self, name: str, usage: float, high: Percentage, low: Percentage, text: str, details: Mapping[str, object]
    ) -> None:
        """Raise an alarm above the high mark, and end it below the low one."""
        alarms = self._kernel.alarms
        marks = {"usage": usage, "high_watermark": high.percent, "low_watermark": low.percent}
        if usage > high.percent:
            alarms.activate(name, text, {**marks, **details}, logs_message=True, degrades=False)
        elif usage < low.percent or low == high:
            alarms.deactivate(name)

    def _end_memory_alarms(self) -> None:
        for name in (_SYSTEM_ALARM, _PROCESS_ALARM):
            self._kernel.alarms.deactivate(name)


class Processors:
    """Their use between two looks; `root` has `proc`."""

    def __init__(self, root: Path = _ROOT) -> None:
        self._file = root / "proc/stat"
        self._busy, self._total = self._machine()
        self._thread_s, self._at = time.thread_time(), time.monotonic()

    def look(self) -> tuple[float, float]:
        """Percent of all processors, and of one by this thread, since the last look; 0 of what is not known."""
        busy, total = self._machine()
        thread_s, at = time.thread_time(), time.monotonic()
        machine = 100 * (busy - self._busy) / max(1, total - self._total)
        thread = 100 * (thread_s - self._thread_s) / max(0.001, at - self._at)
        self._busy, self._total, self._thread_s, self._at = busy, total, thread_s, at
        return round(machine, 1), round(thread, 1)

    def _machine(self) -> tuple[int, int]:
        """How long all processors were busy, and how long there were any, in ticks of the system."""
        try:
            with self._file.open("rb") as stat:
                times = [int(number) for number in stat.readline().split()[1 : 1 + _COUNTED]]
        except (OSError, ValueError):
            return 0, 0
        return sum(times) - sum(times[_IDLE]), sum(times)


def memory_used(root: Path = _ROOT) -> float:
    """Percent of the machine's memory that is not available to programs; 0 where that is not known."""
    found: dict[bytes, int] = {}
    try:
        with (root / "proc/meminfo").open("rb") as lines:
            for line in lines:
                name, _, rest = line.partition(b":")
                if name in (b"MemTotal", b"MemAvailable"):
                    found[name] = int(rest.split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    total, available = found.get(b"MemTotal", 0), found.get(b"MemAvailable")
    return 0.0 if total == 0 or available is None else round(100 * (total - available) / total, 1)
