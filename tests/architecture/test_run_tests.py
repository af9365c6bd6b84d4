"""What fails in `.ci/run` runs once more, alone: what passes then is unstable, what fails twice fails the run."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.nested_pytest import numbered, run_pytest, with_plugins

ROOT: Final = Path(__file__).parents[2]
RUN_TESTS: Final = ROOT / "scripts" / "run_tests.py"

PASSING: Final = """
def test_that_passes():
    pass

def test_too():
    pass
"""
FAILING: Final = """
def test_that_fails():
    print("printed by the failure")
    assert 1 == 2
"""
# Each fails in its first process, as a leftover or a slow machine would have it.
ONCE: Final = """
import os
from pathlib import Path

import pytest

def test_that_passes_alone():
    first = Path("begun")
    if not first.exists():
        first.write_text("")
        print("printed by the first run")
        WHAT
"""


def run(folder: Path, *files: str, options: tuple[str, ...] = ("--again",)) -> "subprocess.CompletedProcess[str]":
    program = (sys.executable, str(RUN_TESTS), *options)
    plugins = with_plugins("support.workers", "support.outcomes")
    return run_pytest(folder, numbered(*files), "-q", *plugins, "--workers=1", program=program)


def closing_line(result: "subprocess.CompletedProcess[str]") -> str:
    """The last line of a run without its seconds."""
    return result.stdout.splitlines()[-1].partition(" in ")[0]


def test_a_run_without_failures_is_as_pytest_has_it(tmp_path: Path) -> None:
    result = run(tmp_path, PASSING, "import pytest\n\ndef test_it():\n    pytest.skip('why')\n")
    assert (result.returncode, closing_line(result)) == (0, "2 passed, 1 skipped")


def test_what_passes_alone_is_unstable_and_the_run_passes(tmp_path: Path) -> None:
    ends = ONCE.replace("WHAT", "os._exit(3)").replace("begun", "begun too")
    result = run(tmp_path, PASSING, ONCE.replace("WHAT", "assert 1 == 2"), ends)
    assert (result.returncode, closing_line(result)) == (0, "2 passed, 2 unstable"), result.stdout
    outputs = dict(part.split("\n", 1) for part in result.stdout.split("\nUNSTABLE ")[1:])
    assert outputs.keys() == {"test_1.py::test_that_passes_alone", "test_2.py::test_that_passes_alone"}
    assert "printed by the first run" in outputs["test_1.py::test_that_passes_alone"]


def test_what_fails_twice_or_is_skipped_when_it_runs_alone_fails_the_run(tmp_path: Path) -> None:
    skipped = (
        ONCE.replace("WHAT", "assert 0").replace("begun", "begun too") + "    else:\n        pytest.skip('alone')\n"
    )
    result = run(tmp_path, PASSING, FAILING, ONCE.replace("WHAT", "raise ValueError"), skipped)
    assert (result.returncode, closing_line(result)) == (1, "2 failed, 2 passed, 1 unstable"), result.stdout
    assert result.stdout.count("UNSTABLE test_2.py::") == result.stdout.count("UNSTABLE test_") == 1


@pytest.mark.parametrize(
    ("source", "code"),
    [("import no_such_module\n", 2), ("import os\n\nos.kill(os.getpid(), 9)\n", 137)],
    ids=["a file that cannot be read", "a process that is killed"],
)
def test_a_run_that_is_not_whole_fails_as_it_is(tmp_path: Path, source: str, code: int) -> None:
    result = run(tmp_path, PASSING, source)
    assert result.returncode == code, result.stdout + result.stderr
    assert "once more" not in result.stdout
    assert result.stdout.splitlines()[-1].startswith("the run is not whole")


def test_very_many_failures_are_no_matter_of_luck(tmp_path: Path) -> None:
    result = run(tmp_path, "\n".join(f"def test_{number}():\n    assert 0\n" for number in range(21)))
    assert (result.returncode, closing_line(result)) == (1, "21 failed, 0 passed")
    assert "once more" not in result.stdout


def test_without_the_option_a_failure_fails_the_run(tmp_path: Path) -> None:
    result = run(tmp_path, ONCE.replace("WHAT", "assert 0"), options=())
    assert result.returncode == 1
    assert "UNSTABLE" not in result.stdout
