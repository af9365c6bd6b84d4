"""Servers of other projects that a test starts for itself: found, started, awaited, ended."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_PATH = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))


def program(name: str, *folders: Path) -> str:
    """The path of a program; where it is not installed, the test is skipped."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", ""), _PATH])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


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
