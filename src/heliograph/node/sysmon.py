"""Watches the machine and the process of a node: processors, memory, open files, turns of the event loop."""

import logging
from collections.abc import Mapping
from typing import Final

from heliograph.config import Config
from heliograph.node.clock import uptime_us
from heliograph.node.kernel import KernelPart
from heliograph.node.loop_probe import LoopProbe
from heliograph.node.machine import Processors, memory_used
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


class SysmonPart(Part):
    """Raises alarms while too much is used of what the node has, by the thresholds of `sysmon`; owned by the node.

    Attributes:
        probe: Measures the event loop; its readings are for others too.
    """

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
        """Begin to measure."""
        self._processors = Processors()
        self.probe.start()

    async def stop(self) -> None:
        """End it."""
        self.probe.stop()

    async def check(self, new: Config) -> Change | None:
        """Other thresholds, which are looked at with the next tick."""
        if new.sysmon == self._settings:
            return None

        def use() -> None:
            self._settings = new.sysmon
            self._due_us = dict.fromkeys((_CPU_ALARM, _SYSTEM_ALARM, _FILES_ALARM), 0)

        return Change(use)

    def samples(self) -> list[Sample]:
        """How long turns of the event loop took."""
        return self.probe.turns.samples("loop.turn")

    def tick(self, uptime_us: int) -> None:
        """Make the checks that are due."""
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
        told = f"the node has {used >> 20} MiB, {share:.1f} % of the memory that it could have"
        self._judge(_PROCESS_ALARM, share, high, high, told, {"used": used, "total": whole})

    def _check_files(self) -> None:
        limits, count, most = self._settings.vm, open_files.count(), open_files.limit()
        usage = round(100 * count / most, 1)
        told = (
            f"{count} of {most} files that may be open are, with one for each connection. Raise that limit "
            "(ulimit -n), or bound connections with max_connections"
        )
        details = {"open_files": count, "open_files_max": most}
        self._judge(_FILES_ALARM, usage, limits.process_high_watermark, limits.process_low_watermark, told, details)

    def _judge(
        self, name: str, usage: float, high: Percentage, low: Percentage, told: str, details: Mapping[str, object]
    ) -> None:
        """Raise an alarm above the high mark, and end it below the low one."""
        alarms = self._kernel.alarms
        marks = {"usage": usage, "high_watermark": high.percent, "low_watermark": low.percent}
        if usage > high.percent:
            alarms.activate(name, told, {**marks, **details}, logs_message=True, degrades=False)
        elif usage < low.percent or low == high:
            alarms.deactivate(name)

    def _end_memory_alarms(self) -> None:
        for name in (_SYSTEM_ALARM, _PROCESS_ALARM):
            self._kernel.alarms.deactivate(name)
