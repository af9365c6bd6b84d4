"""Servers of other projects that a test starts for itself: found, started, awaited, ended."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pytest

from support.waiting import wait_until

_STARTS_MAX = 500
_PATH = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))


def program(name: str, *folders: Path) -> str:
    """The path of a program; where it is not installed, the test is skipped."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", ""), _PATH])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


class KeptRunning:
    """A server that is started again whenever it was killed. Owned by the block of `kept_running`."""

    def __init__(self, command: Sequence[str], ready: str) -> None:
        self.starts = 0
        self._command = command
        self._ready = ready
        self._process: subprocess.Popen[str]
        self._is_over = threading.Event()
        self._may_start = threading.Event()
        self._may_start.set()
        self._start()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The server's process, as it is now."""
        return self._process.pid

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Not there while the block runs; behind it, started again."""
        starts = self.starts
        self._may_start.clear()
        process = self._process
        process.kill()
        process.wait(30)
        try:
            yield
        finally:
            self._may_start.set()
            wait_until(lambda: self.starts > starts, "the server, which was stopped", deadline_s=60)

    def end(self) -> None:
        """End it for good."""
        self._is_over.set()
        self._process.terminate()
        self._thread.join(30)

    def _keep(self) -> None:
        while True:
            self._process.communicate()
            self._may_start.wait()
            if self._is_over.is_set():
                return
            self._start()
            if self._is_over.is_set():  # `end` may have seen the one before
                self._process.terminate()

    def _start(self) -> None:
        # What a killed server leaves behind may stop the first that come after it.
        for _ in range(_STARTS_MAX):
            process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
            )
            assert process.stdout is not None
            if any(self._ready in line for line in process.stdout):
                self._process = process
                self.starts += 1  # who waits for it finds the new one
                return
            process.communicate()
        raise RuntimeError(f"{self._command[0]} does not start again")


@contextmanager
def kept_running(command: Sequence[str], ready: str) -> Iterator[KeptRunning]:
    """A server from the line of its output that has `ready` in it, until the block ends, however often it is killed."""
    kept = KeptRunning(command, ready)
    try:
        yield kept
    finally:
        kept.end()


class Stoppable:
    """A server that a test stops and starts again; a context, in which it runs at first.

    Args:
        command: What starts it, always on the same port.
        ready: What stands in the line of its output that says that it is ready.
        is_killed: Whether it is ended by a kill, since it takes its time otherwise.

    Attributes:
        pid: Its process, as it is now.
    """

    def __init__(self, command: Sequence[str], ready: str, *, is_killed: bool = False) -> None:
        self._command = command
        self._ready = ready
        self._is_killed = is_killed
        self._running = ExitStack()
        self.pid = 0

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        process = self._running.enter_context(running(self._command, self._ready))
        self.pid = process.pid
        if self._is_killed:
            self._running.callback(process.kill)

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self._running.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


@contextmanager
def running(command: Sequence[str], ready: str) -> Iterator["subprocess.Popen[str]"]:
    """A server from the line of its output that has `ready` in it, until the block ends."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if ready in line:
                break
        else:
            pytest.fail(f"{command[0]} ended with {process.wait()}: {''.join(said[-20:])}")
        # Nobody reads what else it says, and a full pipe would stop it.
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)
            drain.join(30)
