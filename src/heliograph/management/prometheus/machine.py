"""What the machine has and uses; the management process is on the machine of its node."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_MEMINFO: Final = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class MachineUse:
    """What is used of a machine.

    Attributes:
        cpu_percent: Of its processors, since the last look.
        memory_bytes: What memory it has,
        used_bytes: and what of it is used.
    """

    cpu_percent: float = 0.0
    memory_bytes: int = 0
    used_bytes: int = 0


class MachineMeter:
    """Looks at the machine; zeros where the system does not say (it is no Linux)."""

    def __init__(self, stat: Path = _STAT, meminfo: Path = _MEMINFO) -> None:
        self._stat = stat
        self._meminfo = meminfo
        self._before = self._ticks()
        self._percent = 0.0

    def look(self) -> MachineUse:
        """What is used now, of processors since the last look."""
        now, before = self._ticks(), self._before
        if now[0] > before[0]:
            self._before = now
            self._percent = round(100 * (1 - (now[1] - before[1]) / (now[0] - before[0])), 2)
        memory = self._memory()
        total = memory.get("MemTotal", 0)
        return MachineUse(self._percent, total, total - memory.get("MemAvailable", total))

    def _ticks(self) -> tuple[int, int]:
        """Ticks of all processors, and those in which they were idle."""
        try:
            ticks = [int(word) for word in self._stat.read_text().partition("\n")[0].split()[1:9]]
        except (OSError, ValueError):
            return 0, 0
        return sum(ticks), sum(ticks[3:5])

    def _memory(self) -> dict[str, int]:
        try:
            lines = [line.split() for line in self._meminfo.read_text().splitlines()]
        except OSError:
            return {}
        return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}
