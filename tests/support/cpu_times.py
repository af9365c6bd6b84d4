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
    """Measure in processes that run tests; write in the one that pytest was started as."""
    path: Path | None = config.getoption(_OPTION)
    if path is None:
        return
    is_worker = hasattr(config, "workerinput")
    measured = None
    if is_worker or not config.getoption("numprocesses", None):
        measured = CpuTimes()
        config.pluginmanager.register(measured)
    if is_worker:
        config.pluginmanager.register(_ForController(config, measured))
    else:
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

    def as_json(self) -> dict[str, Any]:
        """What was measured."""
        return {"collecting_s": self.collecting_s, "files": self.files, "loops_s": self.loops_s}

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


class _ForController:
    """Hands what a worker of xdist has measured to the process that it works for."""

    def __init__(self, config: pytest.Config, measured: CpuTimes | None) -> None:
        self._config = config
        self._measured = measured

    def pytest_sessionfinish(self) -> None:
        """The tests of this worker are done."""
        if self._measured is not None:
            output: dict[str, Any] = getattr(self._config, "workeroutput")  # noqa: B009 - xdist adds it
            output["cpu_times"] = json.dumps(self._measured.as_json())


class _Report:
    """Gathers what all processes have measured, and writes it."""

    def __init__(self, path: Path, measured: CpuTimes | None) -> None:
        self._path = path
        self._measured = measured
        self._workers: list[dict[str, Any]] = []
        self._begin = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended; one that died says nothing."""
        output = getattr(node, "workeroutput", None) or {}
        if "cpu_times" in output:
            self._workers.append(json.loads(output["cpu_times"]))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        parts = [*self._workers, *([self._measured.as_json()] if self._measured is not None else [])]
        files: dict[str, float] = {}
        for part in parts:
            for file, used in part["files"].items():
                files[file] = round(files.get(file, 0.0) + used, 3)
        loops = [each for part in parts for each in part["loops_s"]]
        report = {
            "wall_s": round(time.monotonic() - self._begin, 1),
            "loop_s": round(sum(loops) / len(loops), 6) if loops else LOOP_S,
            "collecting_s": [round(part["collecting_s"], 2) for part in parts],
            "controller_s": 0.0 if self._measured is not None else round(time.process_time(), 2),
            "files": dict(sorted(files.items())),
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
