"""Runs pytest; with `--again`, what failed runs once more, alone and last. `make test` and `.ci/run` use it.

    python scripts/run_tests.py [--again] [PYTEST'S ARGUMENT...]

A test that fails twice fails the run. One that passes then is printed as UNSTABLE with the output of its first failure,
and counted in the last line: the run passes, and docs/testing.md says how the test is mended. A run whose files cannot
be collected, that ends early, or in which very many tests fail has failed as it is.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_AGAIN: Final = "--again"
_AGAIN_MAX: Final = 20  # of more, none is a matter of luck
_FAILED: Final = 1  # pytest's exit code where tests have failed, and nothing else is wrong


@dataclass(frozen=True)
class Outcomes:
    """What became of the tests of a run.

    Args:
        exit_code: Pytest's.
        is_collected: False if a file of tests could not be read.
        failures: The tests that failed, each with its output.
        passed: How many passed.
        skipped: How many were skipped.
    """

    exit_code: int
    is_collected: bool = False
    failures: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    skipped: int = 0


def main() -> int:
    """Run the tests that the command line names; the exit code."""
    arguments = sys.argv[1:]
    if _AGAIN not in arguments:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])
    arguments.remove(_AGAIN)
    begin = time.monotonic()
    first = _run(arguments)
    if first.exit_code not in (0, _FAILED) or not first.is_collected:
        print(f"the run is not whole: pytest ended with {first.exit_code}", flush=True)
        return first.exit_code or _FAILED
    if first.exit_code and not first.failures:
        return first.exit_code
    failed = list(first.failures)
    unstable = [] if len(failed) > _AGAIN_MAX else _passing_alone(failed, arguments)
    for test in unstable:
        print(f"\nUNSTABLE {test}\n{first.failures[test]}")
    print(_closing_line(first, len(unstable), time.monotonic() - begin), flush=True)
    return 0 if len(unstable) == len(failed) else _FAILED


def _passing_alone(tests: list[str], arguments: list[str]) -> list[str]:
    """Those of some tests that pass when each runs alone, one after the other."""
    found = []
    for test in tests:
        print(f"\nonce more, alone: {test}", flush=True)
        again = _run([*_without_places(arguments), test])
        if again.exit_code == 0 and again.passed:
            found.append(test)
    return found


def _without_places(arguments: list[str]) -> list[str]:
    """Arguments that choose neither files nor the number of workers, and have nothing measured."""
    kept: list[str] = []
    for argument in arguments:
        if argument.startswith(("--cpu-times=", "--workers=")):
            continue  # what was measured is of the whole run
        if argument.startswith("-") or not Path(argument.partition("::")[0]).exists():
            kept.append(argument)
    return kept


def _run(arguments: list[str]) -> Outcomes:
    """Run pytest to its end."""
    with tempfile.TemporaryDirectory(prefix="heliograph-outcomes-") as folder:
        path = Path(folder) / "outcomes.json"
        command = [sys.executable, "-m", "pytest", f"--outcomes={path}", *arguments]
        exit_code = subprocess.run(command, check=False).returncode
        if not path.exists():  # killed, or ended by its watchdog
            return Outcomes(exit_code if exit_code > 0 else 128 - exit_code)
        written = Outcomes(**json.loads(path.read_text()))
        if written.exit_code == exit_code:
            return written
    return Outcomes(exit_code if exit_code > 0 else 128 - exit_code)


def _closing_line(outcomes: Outcomes, unstable: int, seconds: float) -> str:
    """The line that pytest closes with, of both runs."""
    counts = [
        (len(outcomes.failures) - unstable, "failed"),
        (outcomes.passed, "passed"),
        (unstable, "unstable"),
        (outcomes.skipped, "skipped"),
    ]
    counted = ", ".join(f"{count} {name}" for count, name in counts if count or name == "passed")
    return f"{counted} in {seconds:.2f}s"


if __name__ == "__main__":
    sys.exit(main())
