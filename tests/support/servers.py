"""Servers of other projects that a test starts for itself: found, started, awaited, ended."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

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
        self._is_over = False
        self._process = self._start()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The server's process, as it is now."""
        return self._process.pid

    def end(self) -> None:
        """End it for good."""
        self._is_over = True
        self._process.terminate()
        self._thread.join(30)

    def _keep(self) -> None:
        while True:
            self._process.communicate()
            if self._is_over:
                return
            self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        # What a killed server leaves behind may stop the first that come after it.
        for _ in range(_STARTS_MAX):
            process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
            )
            assert process.stdout is not None
            if any(self._ready in line for line in process.stdout):
                self.starts += 1
                return process
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
