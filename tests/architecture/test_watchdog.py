"""A test that never ends fails the run and shows where it hangs, whatever it does (`support.watchdog`)."""

import subprocess
from pathlib import Path

import pytest

from support.nested_pytest import run_pytest, with_plugins

ENDLESS = """
def test_that_ends():
    pass

def test_that_never_ends():
    while True:
        pass
"""

# Each survives the exception that ends an ordinary test: a loop that swallows it, C code that never looks for signals,
# a wait for a peer that asks again as py4j does for Java, and a process that does not heed SIGTERM.
SURVIVORS = """
import signal, socket, subprocess
from itertools import repeat

# The limit may have passed before a busy machine comes to the loop, which is what shall survive it.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})

def again_and_again(act):
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        while True:
            try:
                act()
            except BaseException:
                pass
    except BaseException:  # it came between two calls
        again_and_again(act)

def test_swallowing():
    again_and_again(lambda: sum([]))

def test_in_c():
    sum(repeat(0))

def test_silent_peer():
    ours, theirs = socket.socketpair()
    again_and_again(lambda: ours.recv(1))

def test_process():
    made = []  # within the loop: a busy machine may take longer to start it than the test may

    def act():
        if not made:
            made.append(subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 20 & wait; wait"]))
        made[0].terminate(), made[0].wait()

    again_and_again(act)

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

TEARDOWN = """
import pytest

@pytest.fixture(scope="session")
def held():
    yield
    turn()

def turn():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

def test_that_ends(held):
    pass
"""

LEFT_BEHIND = THREAD.replace("    thread.join()\n", "")

COLLECTION = """
import signal

signal.raise_signal(signal.SIGTERM)
"""


def run(folder: Path, source: str, workers: int, grace_s: int = 1) -> "subprocess.CompletedProcess[str]":
    """Run one file of tests with the watchdog and short limits."""
    plugins = with_plugins("support.workers", "pytest_timeout", "support.watchdog")
    limits = f"timeout = 1\nwatchdog_grace = {grace_s}\n"
    return run_pytest(folder, {"it": source}, *plugins, f"--workers={workers}", settings=limits)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        pytest.param(ENDLESS, "test_that_never_ends", id="endless"),
        pytest.param(THREAD, "in turn", id="thread"),
        pytest.param(TEARDOWN, "in turn", id="teardown_of_the_session"),
    ],
)
def test_a_test_that_never_ends_fails_the_run(tmp_path: Path, source: str, place: str) -> None:
    result = run(tmp_path, source, 0)
    assert result.returncode != 0
    assert place in result.stdout + result.stderr


def test_workers_whose_tests_never_end_are_replaced(tmp_path: Path) -> None:
    result = run(tmp_path, SURVIVORS, 2, grace_s=2)  # in which a busy machine comes to the loops
    assert "4 failed, 1 passed" in result.stdout
    for name in ("test_swallowing", "test_in_c", "test_silent_peer", "test_process"):
        assert f"a worker died while it ran 'test_it.py::{name}'" in result.stdout
    # What their stacks are is held above: two workers write theirs at once here, and threads that run change theirs.
    assert result.stderr.count("Timeout (0:00:03)") == 4


def test_a_thread_that_a_test_leaves_behind_for_ever_fails_the_run(tmp_path: Path) -> None:
    result = run(tmp_path, LEFT_BEHIND, 0)
    assert "2 passed" in result.stdout
    assert result.returncode != 0
    assert "in turn" in result.stderr


def test_a_run_that_is_ended_from_outside_shows_where_it_was(tmp_path: Path) -> None:
    result = run(tmp_path, COLLECTION, 0)
    assert result.returncode != 0
    assert "test_it.py" in result.stderr
