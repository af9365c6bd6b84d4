"""A test that never ends fails the run and shows where it hangs, whatever it does (`support.watchdog`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

ENDLESS = """
def test_that_ends():
    pass

def test_that_never_ends():
    while True:
        pass
"""

SWALLOWING = """
def turn():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

def test_that_never_ends():
    turn()

def test_that_ends():
    pass
"""

IN_C = """
from itertools import repeat

def test_that_never_ends():
    sum(repeat(0))

def test_that_ends():
    pass
"""

THREAD = """
from threading import Thread

def turn():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

def test_that_never_ends():
    thread = Thread(target=turn)
    thread.start()
    thread.join()

def test_that_ends():
    pass
"""

LEFT_BEHIND = THREAD.replace("    thread.join()\n", "")

COLLECTION = """
import signal

signal.raise_signal(signal.SIGTERM)
"""


def run(folder: Path, source: str, workers: int) -> "subprocess.CompletedProcess[str]":
    """Run one file of tests in a pytest of its own, which has the watchdog and short limits."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 1\nwatchdog_grace = 1\n")
    command = [sys.executable, "-m", "pytest", "-p", "support.watchdog", "-p", "no:cacheprovider", "-n", str(workers)]
    return subprocess.run(
        [*command, "--dist", "load", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("source", "place", "workers"),
    [
        pytest.param(ENDLESS, "test_that_never_ends", 0, id="endless"),
        pytest.param(SWALLOWING, "in turn", 1, id="swallowing"),
        pytest.param(IN_C, "test_that_never_ends", 1, id="in_c"),
        pytest.param(THREAD, "in turn", 0, id="thread"),
    ],
)
def test_a_test_that_never_ends_fails_the_run(tmp_path: Path, source: str, place: str, workers: int) -> None:
    result = run(tmp_path, source, workers)
    assert result.returncode != 0
    assert place in result.stdout + result.stderr
    if workers:
        assert "1 failed, 1 passed" in result.stdout


def test_a_thread_that_a_test_leaves_behind_for_ever_fails_the_run(tmp_path: Path) -> None:
    result = run(tmp_path, LEFT_BEHIND, 0)
    assert "2 passed" in result.stdout
    assert result.returncode != 0
    assert "in turn" in result.stderr


def test_a_run_that_is_ended_from_outside_shows_where_it_was(tmp_path: Path) -> None:
    result = run(tmp_path, COLLECTION, 0)
    assert result.returncode != 0
    assert "test_it.py" in result.stderr
