"""Measured values, each beside its limit, and their table. Nothing is measured here."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import table


@dataclass(frozen=True)
class Finding:
    """One line of the table.

    Args:
        value: What was measured.
        limit: What it should at least (or `at_most`) be; None: it informs.
        beside: The same of another broker, or of the same one in another way.
    """

    title: str
    value: float
    unit: str
    limit: float | None = None
    at_most: bool = True
    beside: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the limit is kept."""
        if self.limit is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def row(self) -> table.Row:
        """Its line."""
        sign = "≤" if self.at_most else "≥"
        limit = "" if self.limit is None else f"{sign} {self._text(self.limit)}"
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        return self.title, self._text(self.value), self._text(self.beside), limit, verdict

    def _text(self, value: float | None) -> str:
        if value is None:
            return ""
        digits = 0 if value >= 100 or value == int(value) else 2
        return f"{value:,.{digits}f}{self.unit}"


@dataclass(frozen=True)
class Limit:
    """What a named figure should at least (or `at_most`) be.

    Args:
        of: The figure that `value` is a multiple of; empty: none.
    """

    figure: str
    value: float
    at_most: bool = True
    of: str = ""

    def is_kept(self, figures: Mapping[str, float]) -> bool:
        """Whether the figures keep it; one that is not among them breaks nothing."""
        found, bound = figures.get(self.figure), self.value * (figures.get(self.of, 0.0) if self.of else 1.0)
        return found is None or (found <= bound if self.at_most else found >= bound)

    def __str__(self) -> str:
        number = f"{'at most' if self.at_most else 'at least'} {self.value:,g}"
        return f"{number} times the {self.of.partition(':')[0]} one" if self.of else number


def shown(figures: Mapping[str, float], limits: Sequence[Limit]) -> list[str]:
    """Print figures, each with its limit; the names of those that break it."""
    missed: list[str] = []
    for name, value in figures.items():
        number = f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
        said = ""
        for limit in limits:
            if limit.figure == name:
                is_kept = limit.is_kept(figures)
                said = f"{limit}: {'met' if is_kept else 'MISSED'}"
                missed += [] if is_kept else [name]
        print(f"  {name:66} {number:>12}  {said}".rstrip(), flush=True)
    return missed


def report(
    args: argparse.Namespace, name: str, beside: str, findings: Sequence[Finding], conditions: str, notes: list[str]
) -> int:
    """Print the table, and write it where the options `write` and `json` say; the exit code.

    Args:
        name: What the table is called, and its marks on a page.
        beside: What its column of other values is called.
        conditions: On what it was measured, and how.
        notes: What else there is to say; one with FAILED fails the run.
    """
    rows = [(name, "heliograph", beside, "limit", ""), *(finding.row() for finding in findings)]
    print(table.text(rows, conditions, notes))
    if args.write is not None:
        table.write_into(args.write, name, rows, conditions, notes)
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(finding) for finding in findings], indent=2) + "\n")
    code = checked(args.check, [finding.title for finding in findings if finding.met is False])
    return 1 if any("FAILED" in note for note in notes) else code


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add what `report` takes of the command line."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings there too")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into docs/benchmarks.md")
    parser.add_argument("--check", action="store_true", help="exit 1 if a limit is broken")


def machine() -> str:
    """What is measured on, in a few words."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"


def checked(check: bool, missed: Sequence[str]) -> int:
    """The exit code of a program, which says what missed its limit if it was asked to check."""
    if not check or not missed:
        return 0
    print(f"missed: {'; '.join(missed)}", file=sys.stderr)
    return 1
