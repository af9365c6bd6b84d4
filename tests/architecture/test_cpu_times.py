"""The CPU time of tests is measured for each file, and held against the budget of its group."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from scripts import test_times as times

from support.nested_pytest import run_pytest, with_plugins

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = ROOT / "tests"

_BURN: Final = "import time\nwhile time.process_time() < 0.3: pass"
# One waits for its process, one leaves it to live on, idle.
WORKING: Final = f"""
import subprocess, sys

def test_that_waits():
    subprocess.run([sys.executable, "-c", {_BURN!r}])

def test_that_does_not_wait():
    rest = {_BURN!r} + "\\nprint(flush=True)\\ninput()"
    process = subprocess.Popen([sys.executable, "-c", rest], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
"""
IDLE: Final = "def test_it():\n    pass\n"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_file_has_the_time_of_its_processes(tmp_path: Path, workers: int) -> None:
    plugins = with_plugins("support.workers", "support.cpu_times")
    files = {"idle": IDLE, "working": WORKING}
    result = run_pytest(tmp_path, files, *plugins, f"--workers={workers}", "--cpu-times", "out/times")
    assert result.returncode == 0, result.stdout + result.stderr
    measured = json.loads((tmp_path / "out" / "times").read_text())
    assert set(measured["files"]) == {"test_idle.py", "test_working.py"}
    assert measured["files"]["test_working.py"] >= 0.55  # two times 0.3, less the ticks that the kernel counts in
    assert measured["collecting_s"] > 0
    assert measured["loop_s"] > 0


def made(**files: float) -> dict[str, Any]:
    named = {f"tests/{name}/test_it.py": seconds for name, seconds in files.items()}
    return {"loop_s": 2 * times.LOOP_S, "collecting_s": 4.0, "wall_s": 1.0, "files": named}


def test_budgets_are_in_seconds_of_the_standard_machine() -> None:
    groups = [times.Group("a", "", ["a/*"], budget=10), times.Group("b", "", ["b/*", "a/test_it.py"], budget=10)]
    found = times.rows(made(a=18.0, b=22.0), groups)
    assert [(row.name, row.used, row.is_above) for row in found] == [
        ("a", 9.0, False),  # the loop took twice as long as it should: so did the tests
        ("b", 11.0, True),
        (times.COLLECTING, 2.0, False),
    ]


def test_every_file_of_tests_belongs_to_a_group_and_every_group_has_files() -> None:
    groups = times.groups()
    found = {str(path.relative_to(ROOT)) for path in TESTS.rglob("test_*.py")}
    assert [file for file in sorted(found) if times.group_of(file, groups) is None] == []
    used = {group.name for file in found if (group := times.group_of(file, groups)) is not None}
    assert used == {group.name for group in groups}


def test_the_documentation_names_every_group() -> None:
    table = times.DOCS.read_text().partition("<!-- make test-times -->\n")[2].partition("<!-- end -->")[0]
    named = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert named == [*(group.name for group in times.groups()), times.COLLECTING]
