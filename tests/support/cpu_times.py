"""`--cpu-times FILE`: the CPU time of each file of tests with all processes that it starts, as JSON.

Processes count while they live, and go on counting when they have ended, except those whose parent was killed; what a
session shares, a Spark session or a node, counts for the file that uses it. A loop that always does the same work says
how fast the machine is meanwhile.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

LOOP_S: Final = 0.02  # what the loop takes on the machine whose seconds are the standard
_LOOP_EVERY_S: Final = 10.0  # of CPU time
_OPTION: Final = "--cpu-times"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option; without it nothing is measured."""
    parser.addoption(_OPTION, type=Path, metavar="FILE", help="write the CPU time of each file of tests, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each process that runs tests; write in the one that pytest was started as."""
    path: Path | None = config.getoption(_OPTION)
    if path is None:
        return
    measured = CpuTimes()
    config.pluginmanager.register(measured)
    config.pluginmanager.register(_Report(path, measured))


class CpuTimes:
    """CPU times of the files whose tests run in this process; owned by pytest, for one run."""

    def __init__(self) -> None:
        self.collecting_s = 0.0
        self.files: dict[str, float] = {}
        self.loops_s: list[float] = []
        self._measured_s = 0.0
        self._since_loop_s = _LOOP_EVERY_S

    def pytest_collection_finish(self) -> None:
        """What was used until here was for all tests."""
        self.collecting_s = self._next()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
        """Measure at the last test of a file."""
        result = yield
        if nextitem is None or nextitem.path != item.path:
            used = self._next()
            file = item.nodeid.partition("::")[0]
            self.files[file] = self.files.get(file, 0.0) + used
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_worker_begins(self) -> None:
        """This process is a copy of the one that collected the tests; what that one has used is not its own."""
        self._measured_s = cpu_s()

    @pytest.hookimpl(optionalhook=True)
    def pytest_worker_ends(self) -> dict[str, Any]:
        """What this worker has measured."""
        return {"cpu_times": (self.files, self.loops_s)}

    def _next(self) -> float:
        """CPU seconds since the last call, without those of the loop."""
        now = cpu_s()
        used = max(0.0, now - self._measured_s)  # processes whose parents were killed are not seen any more
        self._since_loop_s += used
        if self._since_loop_s >= _LOOP_EVERY_S:
            self._since_loop_s = 0.0
            self.loops_s.append(loop())
            now = cpu_s()
        self._measured_s = now
        return used


class _Report:
    """Gathers what all processes have measured, and writes it."""

    def __init__(self, path: Path, measured: CpuTimes) -> None:
        self._path = path
        self._measured = measured
        self._begin = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_worker_ended(self, results: dict[str, Any]) -> None:
        """A worker has ended; one that died says nothing."""
        files, loops_s = results["cpu_times"]
        for file, used in files.items():  # of one whose worker died, another has run the rest
            self._measured.files[file] = self._measured.files.get(file, 0.0) + used
        self._measured.loops_s += loops_s

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        measured = self._measured
        loops = measured.loops_s
        report = {
            "wall_s": round(time.monotonic() - self._begin, 1),
            "loop_s": round(sum(loops) / len(loops), 6) if loops else LOOP_S,
            "collecting_s": round(measured.collecting_s, 2),
            "files": {file: round(used, 3) for file, used in sorted(measured.files.items())},
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(report, indent=1) + "\n")


def cpu_s() -> float:
    """CPU seconds of this process and of all below it, those that have ended included."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system + sum(map(_of, _below(os.getpid())))


def loop() -> float:
    """CPU seconds of a piece of work that is always the same: some megabytes of text in a dictionary, sorted."""
    begin = time.thread_time()
    found: dict[str, int] = {}
    for number in range(28_000):
        name = f"topic/{number * 7919 % 28_000}/{number & 7}"
        found[name] = found.get(name, 0) + len(name.encode())
    sorted(found)
    return time.thread_time() - begin


def _below(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    found: list[int] = []
    todo = [pid]
    while todo:
        children: list[int] = []
        with suppress(OSError):
            for task in Path(f"/proc/{todo.pop()}/task").iterdir():
                with suppress(OSError):
                    children += map(int, (task / "children").read_text().split())
        found += children
        todo += children
    return found


def _of(pid: int) -> float:
    """CPU seconds of a process and of those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS
