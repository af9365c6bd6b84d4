"""A program that is a copy does what a new process of Python would: arguments, streams, exit code, signals."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.python_copies import python

_PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGHUP, lambda *_: sys.exit(7))
print(*sys.argv[1:], os.environ["NAME"], os.getcwd(), sys.stdin.readline().strip(), flush=True)
signal.pause()
"""


@pytest.fixture
def copy(tmp_path: Path) -> "subprocess.Popen[str]":
    """A copy that waits for a signal."""
    (tmp_path / "program.py").write_text(_PROGRAM)
    command = [python(), "-m", "program", "one", "two"]
    pipe, environment = subprocess.PIPE, {**os.environ, "NAME": "name"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=pipe, stdout=pipe, text=True)
    assert process.stdin is not None
    process.stdin.write("line\n")
    process.stdin.flush()
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 7), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_copy_is_a_process_like_any_other(
    copy: "subprocess.Popen[str]", tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with copy:
        assert copy.stdout is not None
        assert copy.stdout.readline() == f"one two name {tmp_path} line\n"
        copy.send_signal(number)
        assert copy.wait() == code
        assert copy.stdout.read() == ""  # closed by the copy, which has ended too


def test_a_copy_runs_code_and_tells_its_version() -> None:
    asked = [python(), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "{}.{}\n".format(
        *sys.version_info[:2]
    )


def test_a_copy_ends_as_a_program_does() -> None:
    """Its threads and what is called at the exit come first, and its exit code and what it says are those of Python."""
    program = """
import atexit, sys, threading
atexit.register(print, "last")
threading.Thread(target=lambda: (threading.main_thread().join(), print("thread"))).start()
print("first", end=" ")
sys.exit("why")
"""
    ended = subprocess.run([python(), "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "first thread\nlast\n", "why\n")
    failed = subprocess.run([python(), "-c", "1 / 0"], capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stderr.splitlines()[-1]) == (1, "ZeroDivisionError: division by zero")
