"""How much of the machine is used, from the operating system: processors and memory."""

import time
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")
_IDLE: Final = slice(3, 5)  # what a line of /proc/stat counts as idle, and as waiting for disks
_COUNTED: Final = 8  # columns behind these are parts of others


class Processors:
    """Their use between two looks; owned by what looks.

    Args:
        root: Where `proc` is.
    """

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
