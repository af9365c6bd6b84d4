"""Ctrl-C ends all processes that a run of tests has started, and so does its end (`scripts/supervise.py`)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.nested_pytest import environment, with_plugins

ROOT: Final = Path(__file__).parents[2]
SUPERVISE: Final = (sys.executable, str(ROOT / "scripts" / "supervise.py"))
ENDS_WITHIN_S: Final = 5.0  # what a user is promised, also on a busy machine

# Both write their number into a pipe; the test ends when its process does, which is never.
SLEEPING = """
import os, subprocess, sys

CHILD = "import os, sys, time; open(sys.argv[1], 'w').write(f'{os.getpid()} '); time.sleep(3600)"

def test_that_sleeps():
    with open("pids", "w") as pipe:
        pipe.write(f"{os.getpid()} ")
    subprocess.run([sys.executable, "-c", CHILD, "pids"], start_new_session=True)
"""
STUBBORN = "trap '' INT TERM HUP; echo $$ > pids; while :; do sleep 3600; done"


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[int]:
    """The reading end of the pipe `pids`."""
    os.mkfifo(tmp_path / "pids")
    descriptor = os.open(tmp_path / "pids", os.O_RDWR)  # a writer, too: reading waits also after the first has closed
    yield descriptor
    os.close(descriptor)


def read_pids(pipe: int, count: int) -> list[int]:
    text = b""
    while len(text.split()) < count or not text[-1:].isspace():
        text += os.read(pipe, 1000)
    return [int(word) for word in text.split()]


def start(folder: Path, *command: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*SUPERVISE, *command], cwd=folder, env=environment())


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_of_tests_leaves_no_process_behind(tmp_path: Path, pids: int, number: signal.Signals) -> None:
    for each in ("one", "two"):
        (tmp_path / f"test_{each}.py").write_text(SLEEPING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run = start(tmp_path, sys.executable, "-m", "pytest", *with_plugins("support.workers"), "--workers=2")
    found = read_pids(pids, 4)
    assert all(map(lives, found))
    run.send_signal(number)
    assert run.wait(ENDS_WITHIN_S) == 128 + number
    assert not any(map(lives, found))


def test_a_program_that_heeds_no_signal_is_killed(tmp_path: Path, pids: int) -> None:
    run = start(tmp_path, "sh", "-c", STUBBORN)
    found = read_pids(pids, 1)
    run.send_signal(signal.SIGINT)
    assert run.wait(ENDS_WITHIN_S) == 128 + signal.SIGINT
    assert not lives(found[0])


def test_what_outlives_a_program_is_ended(tmp_path: Path, pids: int) -> None:
    os.mkfifo(tmp_path / "go")
    (tmp_path / "stubborn").write_text(STUBBORN)
    run = start(tmp_path, "sh", "-c", "setsid sh stubborn & cat go; exit 3")
    found = read_pids(pids, 1)
    (tmp_path / "go").write_text("x")
    assert run.wait() == 3
    assert not lives(found[0])


def test_a_run_ends_at_its_limit(tmp_path: Path) -> None:
    assert start(tmp_path, "--limit", "0.1", "sleep", "3600").wait() == 124


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_code_is_that_of_the_program(tmp_path: Path, command: str, code: int) -> None:
    assert start(tmp_path, "sh", "-c", command).wait() == code


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = subprocess.run([*SUPERVISE, "no-such-program"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (127, "no-such-program: No such file or directory\n")
