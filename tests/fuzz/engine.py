"""Runs a target on inputs that are made up here, in a process of its own that is watched.

The process shows each input in shared memory before it runs it, so that one that hangs or kills the process (compiled
code can) is found there. Memory is looked at too: inputs leave nothing behind, so a process that grows has a leak.
"""

import hashlib
import mmap
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fuzz.mutation import INPUT_BYTES_MAX, Mutator

HANG_S: Final = 10.0
# The allocator and the caches of the interpreter settle in the beginning; what comes later must be little.
_SETTLED_AFTER: Final = 0.2
GROWTH_BYTES_MAX: Final = 32 * 1024 * 1024

_COUNT_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_HEADER_BYTES: Final = _COUNT_BYTES + _LENGTH_BYTES
_LOOK_EVERY: Final = 256


@dataclass(frozen=True)
class Budget:
    """How long to go on: until so many inputs were run or so much time has passed, whichever comes first.

    Args:
        runs: 0 for any number.
        seconds: 0 for any time.
    """

    runs: int
    seconds: float


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        fault: What was found, empty for nothing.
        reproducer: The input that shows it.
        grown_bytes: How much the process grew after it had settled.
    """

    runs: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    grown_bytes: int = 0
    fault: str = ""
    reproducer: Path | None = None


class Window:
    """Shared memory in which the fuzzing process shows what it does."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _HEADER_BYTES + INPUT_BYTES_MAX)

    def show(self, count: int, data: bytes) -> None:
        """An input is about to be run, the one with this number."""
        memory = self._memory
        memory[_HEADER_BYTES : _HEADER_BYTES + len(data)] = data
        memory[:_HEADER_BYTES] = count.to_bytes(_COUNT_BYTES, "little") + len(data).to_bytes(_LENGTH_BYTES, "little")

    def look(self) -> tuple[int, bytes]:
        """The number and the content of the last input."""
        header = self._memory[:_HEADER_BYTES]
        length = int.from_bytes(header[_COUNT_BYTES:], "little")
        return int.from_bytes(header[:_COUNT_BYTES], "little"), self._memory[_HEADER_BYTES : _HEADER_BYTES + length]


def fuzz(
    name: str,
    run: Callable[[bytes], None],
    mutator: Mutator,
    budget: Budget,
    artifacts: Path,
    progress: Callable[[Outcome], None] | None = None,
    hang_s: float = HANG_S,
) -> Outcome:
    """Run a target in a child process until something is found or the budget is used up."""
    window = Window()
    outcome = Outcome()
    began = time.monotonic()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_work(run, mutator, budget, window, writing))
    os.close(writing)
    status = _watch(child, window, outcome, began, progress, hang_s)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        told = pipe.read()
    outcome.runs, data = window.look()
    outcome.seconds = time.monotonic() - began
    outcome.fault = outcome.fault or _fault(status, told)
    if outcome.fault:
        outcome.reproducer = keep(artifacts, name, data)
    elif outcome.grown_bytes > GROWTH_BYTES_MAX:
        outcome.fault = f"the process grew by {outcome.grown_bytes >> 20} MiB after it had settled"
    return outcome


def keep(artifacts: Path, name: str, data: bytes) -> Path:
    """Write an input that shows a fault into a file."""
    artifacts.mkdir(parents=True, exist_ok=True)
    path = artifacts / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path


def corpus(directory: Path) -> list[bytes]:
    """The inputs in a directory, in a fixed order."""
    return [path.read_bytes() for path in sorted(directory.glob("*")) if path.is_file()] if directory.is_dir() else []


def _work(run: Callable[[bytes], None], mutator: Mutator, budget: Budget, window: Window, writing: int) -> int:
    """The child: run inputs, one after the other; its exit code."""
    end = time.monotonic() + budget.seconds if budget.seconds else float("inf")
    runs_max = budget.runs or sys.maxsize
    count = 0
    try:
        while count < runs_max:
            data = mutator.next()
            count += 1
            window.show(count, data)
            run(data)
            if count % _LOOK_EVERY == 0 and time.monotonic() > end:
                break
    except BaseException:  # noqa: BLE001 - whatever it is, it is what we look for
        os.write(writing, traceback.format_exc(limit=-12).encode("utf-8", "replace"))
        return 1
    return 0


def _watch(
    child: int,
    window: Window,
    outcome: Outcome,
    began: float,
    progress: Callable[[Outcome], None] | None,
    hang_s: float,
) -> int:
    """The parent: look at the child now and then, until it has ended; its exit status."""
    moved_at = began
    sizes: list[int] = []
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            settled = sizes[int(len(sizes) * _SETTLED_AFTER) :]
            outcome.grown_bytes = max(0, settled[-1] - settled[0]) if settled else 0
            return status
        now = time.monotonic()
        count, _ = window.look()
        if count != outcome.runs:
            outcome.runs, moved_at = count, now
        elif now - moved_at > hang_s:
            outcome.fault = f"one input has been running for {hang_s:g} s"
            os.kill(child, 9)
        size = resident_bytes(child)
        if size:  # it may have ended meanwhile
            sizes.append(size)
        outcome.peak_bytes = max(outcome.peak_bytes, size)
        outcome.seconds = now - began
        if progress is not None:
            progress(outcome)
        time.sleep(min(0.5, 0.01 * (len(sizes) + 1)))  # the child may hang, and then says nothing


def _fault(status: int, told: str) -> str:
    if os.WIFSIGNALED(status):
        return f"the process died of signal {os.WTERMSIG(status)}"
    return told


def resident_bytes(process: int) -> int:
    """The resident memory of a process; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
