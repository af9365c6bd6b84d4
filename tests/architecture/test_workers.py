"""A worker that dies fails the test that it was at, once; every other test runs, and the run ends."""

import subprocess
from pathlib import Path

from support.nested_pytest import numbered, run_pytest, with_plugins

PASSING = "def test_one():\n    pass\n\ndef test_two():\n    pass\n"
DYING = """
import os

def test_before():
    pass

def test_dying():
    os._exit(3)

def test_behind():
    pass
"""
USING_SPARK = """
import os
from pathlib import Path
import pytest

@pytest.fixture
def spark():
    with Path("workers").open("a") as file:
        print(os.getpid(), file=file)

def test_one(spark: object):
    pass

def test_two(spark: object):
    pass
"""


def run(folder: Path, files: list[str], workers: int) -> "subprocess.CompletedProcess[str]":
    return run_pytest(folder, numbered(*files), *with_plugins("support.workers"), f"--workers={workers}")


def test_of_two_workers_that_die_every_test_but_theirs_is_run_by_others(tmp_path: Path) -> None:
    result = run(tmp_path, [PASSING, DYING, PASSING, PASSING, DYING.replace("before", "early"), PASSING], 2)
    assert "2 failed, 12 passed" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 1


def test_the_last_test_of_a_run_may_be_the_one_of_which_a_worker_dies(tmp_path: Path) -> None:
    result = run(tmp_path, [PASSING, "import os\n\ndef test_dying():\n    os._exit(3)\n"], 1)
    assert "1 failed, 2 passed" in result.stdout, result.stdout + result.stderr


def test_one_test_may_be_all_that_a_dead_worker_leaves(tmp_path: Path) -> None:
    result = run(tmp_path, [PASSING, DYING], 1)
    assert "1 failed, 4 passed" in result.stdout, result.stdout + result.stderr


def test_a_worker_that_dies_after_its_last_test_fails_the_run(tmp_path: Path) -> None:
    result = run(tmp_path, [PASSING, "import atexit, os\n\ndef test_it():\n    atexit.register(os._exit, 3)\n"], 2)
    assert "a worker died after its last test: exit code 3" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 2


def test_one_worker_runs_everything_that_uses_spark(tmp_path: Path) -> None:
    result = run(tmp_path, [USING_SPARK, PASSING, USING_SPARK, USING_SPARK], 3)
    assert "8 passed" in result.stdout, result.stdout + result.stderr
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6
    assert len(set(workers)) == 1


def test_another_worker_goes_on_with_spark_where_the_one_that_had_it_died(tmp_path: Path) -> None:
    dying = USING_SPARK.replace("test_two(spark: object):\n    pass", "test_two(spark: object):\n    os._exit(3)")
    result = run(tmp_path, [USING_SPARK, dying, USING_SPARK, PASSING], 2)
    assert "1 failed, 7 passed" in result.stdout, result.stdout + result.stderr
    workers = (tmp_path / "workers").read_text().split()
    assert len(set(workers[:4])) == len(set(workers[4:])) == 1
