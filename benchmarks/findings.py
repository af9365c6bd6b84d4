"""Measured values, each beside its limit, and their table. Nothing is measured here."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

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
    missed = args.check and any(finding.met is False for finding in findings)
    return 1 if missed or any("FAILED" in note for note in notes) else 0
