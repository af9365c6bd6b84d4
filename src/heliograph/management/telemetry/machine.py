"""What EMQX reports of the machine: processor and memory."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MEMINFO: Final = Path("/proc/meminfo")
_STAT: Final = Path("/proc/stat")


class Machine:
    """Looks at processor and memory; how much the processor had to do is known from the second time on."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None

    def gauges(self) -> Mapping[str, float]:
        """Under EMQX's names; without those that the system does not tell."""
        gauges: dict[str, float] = {"cluster.nodes.running": 1, "cluster.nodes.stopped": 0}
        try:
            gauges |= self._memory()
            gauges |= self._processor()
            gauges["run.queue"] = os.getloadavg()[0]
        except (OSError, ValueError, KeyError):  # another system
            pass
        return gauges

    def _memory(self) -> Mapping[str, float]:
        sizes = {
            name: int(rest.split()[0]) * 1024
            for name, rest in (line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        }
        total = sizes["MemTotal"]
        return {"total.memory": total, "used.memory": total - sizes["MemAvailable"]}

    def _processor(self) -> Mapping[str, float]:
        ticks = [int(one) for one in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
        now = sum(ticks), ticks[3] + ticks[4]
        before, self._before = self._before, now
        if before is None or now[0] == before[0]:
            return {}
        idle = round(100 * (now[1] - before[1]) / (now[0] - before[0]), 2)
        return {"cpu.use": round(100 - idle, 2), "cpu.idle": idle}


def since_ns(uptime_s: int) -> int:
    """When a node began that has run for so long."""
    return time.time_ns() - uptime_s * 1_000_000_000
