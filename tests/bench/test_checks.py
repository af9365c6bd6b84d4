"""The benchmarks say what missed its limit, and fail if they were asked to check."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.figures import Figure, Outcome
from benchmarks.findings import Limit, checked, shown
from benchmarks.load import Measured

from support.cases import cases

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    "run",
    "scale",
    "durable",
    "subscriptions",
    "retained",
    "storage_ingest",
    "rules",
    "pipeline_read",
    "live_path",
    "dashboard",
]


def test_what_breaks_its_limit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    limits = (Limit("size", 10), Limit("rate", 5, at_most=False), Limit("b", 2, of="a: time"), Limit("not measured", 1))
    assert shown({"size": 10.0, "rate": 5.0, "a: time": 3.0, "b": 6.0, "else": 1.0}, limits) == []
    assert shown({"size": 11.0, "rate": 4.9, "a: time": 3.0, "b": 6.1}, limits) == ["size", "rate", "b"]
    printed = capsys.readouterr().out
    assert "at most 10: MISSED" in printed
    assert "at most 2 times the a one: met" in printed
    assert checked(False, ["size"]) == 0
    assert checked(True, []) == 0
    assert checked(True, ["size", "rate"]) == 1
    assert capsys.readouterr().err == "missed: size; rate\n"


@cases(("spent", "is_worse"), [(1.029, False), (1.031, True), (0.5, False)])
def test_a_message_may_cost_three_percent_more_than_before(spent: float, is_worse: bool) -> None:
    outcome = Outcome(Figure("qos0", "one to one"))
    ours, before = outcome.figure.ours[0].name, "before"
    for name, costs in ((ours, (spent, 2 * spent)), (before, (1.4, 1.0))):
        outcome.runs[name] = [_run(cost) for cost in costs]
    assert outcome.is_worse is is_worse
    assert not Outcome(outcome.figure).is_worse


def _run(cost_us: float) -> Measured:
    return Measured(1e6 / cost_us, 0, 0, 0, 1.0, 1.0)


@cases("program", PROGRAMS)
def test_every_program_can_check(program: str) -> None:
    command = [sys.executable, f"benchmarks/{program}.py", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--check" in done.stdout
    assert f" {program} " in f" {' '.join(_of_make())} "


def _of_make() -> list[str]:
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("BENCHMARKS"))
    return line.partition(":=")[2].split()
