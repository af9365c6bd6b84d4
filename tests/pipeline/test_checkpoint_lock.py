"""One driver at a time on a checkpoint: who is kept away, what it is told, and what a killed driver leaves behind."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heliograph.pipeline.errors import BackfillError, CheckpointInUseError
from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.running.backfill import plan_backfill
from heliograph.pipeline.running.checkpoint_lock import checkpoint_lock, running_driver
from support.pipeline_run import Run

pytestmark = pytest.mark.slow

# A driver, with the process that it starts and passes the lock on to. It ends with its input.
_DRIVER = """
import subprocess, sys
from pathlib import Path
from heliograph.pipeline.running.checkpoint_lock import checkpoint_lock

with checkpoint_lock(Path(sys.argv[1])) as lock:
    child = subprocess.Popen(["sleep", "600"], pass_fds=[lock], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
    child.kill()
    child.wait()
"""


@contextmanager
def _driver(directory: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A driver that holds a checkpoint, and the number of the process that it has started."""
    command = [sys.executable, "-c", _DRIVER, str(directory)]
    child = None
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None
            child = int(driver.stdout.readline())
            yield driver, child
        finally:
            driver.kill()
            if child is not None:
                _kill(child)


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_a_second_driver_is_told_who_has_the_checkpoint(tmp_path: Path) -> None:
    with _driver(tmp_path / "state") as (driver, _):
        told = f"the checkpoint {tmp_path}/state is in use by another pipeline driver (process {driver.pid}): stop it"
        with pytest.raises(CheckpointInUseError, match=re.escape(told)), checkpoint_lock(tmp_path / "state"):
            pass
        assert running_driver(tmp_path / "state") == driver.pid
        with checkpoint_lock(tmp_path / "another"):
            pass
        assert driver.poll() is None
        driver.communicate("")
    assert running_driver(tmp_path / "state") is None
    with checkpoint_lock(tmp_path / "state", wait_s=0):
        assert running_driver(tmp_path / "state") == os.getpid()


def test_a_driver_waits_for_what_a_killed_one_left_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with _driver(tmp_path) as (driver, child):
        driver.kill()
        # It has ended, but is not waited for, so that its number is still taken.
        os.waitid(os.P_PID, driver.pid, os.WEXITED | os.WNOWAIT)

        class EndIt(logging.Filter):
            def filter(self, record: logging.LogRecord) -> bool:
                _kill(child)
                return True

        with caplog.filtering(EndIt()), caplog.at_level(logging.INFO), checkpoint_lock(tmp_path, wait_s=60):
            assert f"waiting for what process {driver.pid} left behind" in caplog.text


def test_what_stays_behind_is_named(tmp_path: Path) -> None:
    with _driver(tmp_path) as (driver, child):
        driver.kill()
        driver.wait()
        assert running_driver(tmp_path) is None
        told = f"in use by process {child}, left behind by a pipeline driver that has ended (process {driver.pid})"
        with pytest.raises(CheckpointInUseError, match=re.escape(told)), checkpoint_lock(tmp_path, wait_s=0):
            pass


def test_a_process_that_got_the_number_of_a_killed_driver_is_no_driver(tmp_path: Path) -> None:
    with _driver(tmp_path) as (driver, child):
        driver.kill()
        driver.wait()
        (tmp_path / "driver.lock").write_text(f"{os.getppid()} {socket.gethostname()}")
        told = f"in use by process {child}, left behind by"
        with pytest.raises(CheckpointInUseError, match=told), checkpoint_lock(tmp_path, wait_s=0):
            pass


def test_a_driver_on_another_host_is_told_with_its_host(tmp_path: Path) -> None:
    with _driver(tmp_path):
        (tmp_path / "driver.lock").write_text("7 somewhere-else")
        told = r"in use by another pipeline driver \(process 7 on somewhere-else\)"
        with pytest.raises(CheckpointInUseError, match=told), checkpoint_lock(tmp_path, wait_s=0):
            pass


def test_a_backfill_does_not_begin_a_query_that_a_driver_may_begin(tmp_path: Path) -> None:
    run = Run(tmp_path, "127.0.0.1:9")
    run.write_rules('rules.obs { sql = "SELECT payload.n AS n FROM \\"a/#\\"", sink { type = parquet, path = obs } }')
    pipeline, settings = load_pipeline(run.file), run.settings()
    with _driver(run.checkpoint) as (driver, _):
        told = rf"obs did not begin yet, and a driver that runs may begin it .*\(process {driver.pid}\)"
        with pytest.raises(BackfillError, match=told):
            plan_backfill(pipeline, ["obs"], settings, "earliest", None)
