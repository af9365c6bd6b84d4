"""Prints the CPU time of each group of tests, as the last `make test` measured it, and holds it against its budget.

    python scripts/test_times.py [FILE]
    python scripts/test_times.py --propose     budgets with some room above what was measured, in tests/groups.toml
    python scripts/test_times.py --docs        the table goes into docs/testing.md as well

Budgets, in tests/groups.toml, are in standard seconds: CPU seconds divided by how much longer a loop of fixed work took
in the same run than on the machine that is the standard. So neither a slower machine nor a busy one breaks a budget.
The exit code is 1 if a group is above its budget, and 2 if nothing was measured.
"""

import argparse
import json
import math
import re
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
MEASURED: Final = ROOT / "build" / "test-times.json"
DOCS: Final = ROOT / "docs" / "testing.md"
LOOP_S: Final = 0.02  # as tests/support/cpu_times.py has it
COLLECTING: Final = "collecting"
_COLLECTING_BUDGET_S: Final = 40.0  # in a fresh checkout, where nothing has been compiled yet
_ROOM: Final = 1.5
_HEAVIEST: Final = 15
_TABLE: Final = re.compile(r"(<!-- make test-times -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Group:
    """Files of tests that prove things of one kind.

    Args:
        name: What it is called.
        proves: What its tests prove.
        files: Patterns of its files, below tests/; a file belongs to the first group that has one for it.
        budget: The CPU time that it may take, in standard seconds.
    """

    name: str
    proves: str
    files: list[str]
    budget: float

    def has(self, file: str) -> bool:
        """Whether a file, whose path begins with tests/, matches a pattern."""
        return any(fnmatch(file.removeprefix("tests/"), pattern) for pattern in self.files)


@dataclass(frozen=True)
class Row:
    """A line of the table, in standard seconds."""

    name: str
    proves: str
    used: float
    budget: float

    @property
    def is_above(self) -> bool:
        """Whether more was used than may be."""
        return self.used > self.budget


def groups(root: Path = ROOT) -> list[Group]:
    """The groups of tests, in their order."""
    declared = tomllib.loads((root / "tests" / "groups.toml").read_text(encoding="utf-8"))
    return [Group(**each) for each in declared["group"]]


def group_of(file: str, among: list[Group]) -> Group | None:
    """The first group with a pattern for a file."""
    return next((group for group in among if group.has(file)), None)


def rows(measured: dict[str, Any], among: list[Group]) -> list[Row]:
    """The table of a run."""
    scale = LOOP_S / measured["loop_s"]
    used = dict.fromkeys([group.name for group in among], 0.0)
    for file, seconds in measured["files"].items():
        group = group_of(file, among)
        if group is not None:
            used[group.name] += seconds * scale
    found = [Row(group.name, group.proves, used[group.name], group.budget) for group in among]
    collecting = measured["collecting_s"] * scale
    return [*found, Row(COLLECTING, "reading all files of tests, once", collecting, _COLLECTING_BUDGET_S)]


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=MEASURED, help="what a run has measured")
    parser.add_argument("--propose", action="store_true", help="write budgets with some room above what was measured")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/testing.md")
    options = parser.parse_args()
    try:
        measured = json.loads(options.file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        print(f"no tests were measured ({options.file}): run `make test` first", file=sys.stderr)
        return 2
    table = rows(measured, groups())
    if options.propose:
        _propose(table)
        return 0
    _print(measured, table)
    if options.docs:
        text = DOCS.read_text(encoding="utf-8")
        DOCS.write_text(_TABLE.sub(lambda found: found[1] + _markdown(table) + found[2], text), encoding="utf-8")
    above = [row.name for row in table if row.is_above]
    if above:
        print(f"above their budgets in tests/groups.toml: {', '.join(above)}", file=sys.stderr)
    return 1 if above else 0


def _print(measured: dict[str, Any], table: list[Row]) -> None:
    scale = LOOP_S / measured["loop_s"]
    files: dict[str, float] = measured["files"]
    whole = sum(files.values()) + measured["collecting_s"]
    print(f"{'group':28} {'CPU s':>8} {'standard':>9} {'budget':>7}")
    for row in table:
        mark = "  above its budget" if row.is_above else ""
        print(f"{row.name:28} {row.used / scale:8.1f} {row.used:9.1f} {row.budget:7g}{mark}")
    print(f"{'everything':28} {whole:8.1f} {whole * scale:9.1f}")
    print(f"\n{measured['wall_s']:.0f} s of time; the loop took {measured['loop_s'] * 1e3:.1f} ms")
    print("\nthe heaviest files, in CPU seconds")
    for file, seconds in sorted(files.items(), key=lambda each: -each[1])[:_HEAVIEST]:
        print(f"{seconds:8.1f} {file}")


def _propose(table: list[Row], file: Path = ROOT / "tests" / "groups.toml") -> None:
    """Write into the file of the groups what they may use from now on, and print it."""
    text = file.read_text(encoding="utf-8")
    for row in table:
        budget = math.ceil(row.used * _ROOM / 5) * 5
        print(f"{row.name:28} used {row.used:6.1f}, budget {row.budget:g}, proposed {budget}")
        pattern = re.compile(rf'(\nname = "{re.escape(row.name)}"\n(?:[^\n]+\n)*?budget = )\d+')
        text = pattern.sub(rf"\g<1>{budget}", text)
    file.write_text(text, encoding="utf-8")


def _markdown(table: list[Row]) -> str:
    lines = ["| group | what it proves | CPU time | budget |", "| --- | --- | ---: | ---: |"]
    lines += [f"| {row.name} | {row.proves} | {row.used:.0f} s | {row.budget:g} s |" for row in table]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
