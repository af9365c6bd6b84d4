"""The tables at the end of the benchmarks, on the terminal and in the documentation. Nothing is measured here."""

import statistics
from pathlib import Path
from typing import Final

from benchmarks.brokers import NOBODY, STORING
from benchmarks.figures import Figure, Outcome

# A broker that used less of its core was waiting for something: for its load, if that used more than the second.
_BROKER_BUSY: Final = 0.85
_LOAD_BUSY: Final = 0.9

_HEADINGS: Final = ("figure", "heliograph", "storing", "before", "beside", "ratio", "target", "")

Row = tuple[str, ...]


def rows(outcomes: list[Outcome]) -> list[Row]:
    """Headings and figures, without the columns that are empty in all of them."""
    table = [_HEADINGS, *(_row(outcome) for outcome in outcomes)]
    filled = [column for column in range(len(_HEADINGS)) if any(row[column] for row in table[1:])]
    return [tuple(row[column] for column in filled) for row in table]


def text(table: list[Row], conditions: str, notes: list[str]) -> str:
    """The table for a terminal, with what there is to say about it."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in table
    ]
    return "\n".join(["", *(line.rstrip() for line in lines), "", conditions, *notes])


def write_into(page: Path, name: str, table: list[Row], conditions: str, notes: list[str]) -> None:
    """Put the table into a page of the documentation, between the marks that carry its name.

    Raises:
        ValueError: The page has no such marks.
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no place for the table: the marks {begin} and {end}")
    head, *body = table
    rule = ("---", *("---:" for _ in head[1:]))
    lines = ["| " + " | ".join(row) + " |" for row in (head, rule, *body)]
    said = [f"- {note}" for note in notes]
    parts = [f"Measured on {conditions}.", "\n".join(lines), *(["\n".join(said)] if said else [])]
    page.write_text(f"{before}{begin}\n\n" + "\n\n".join(parts) + f"\n\n{end}{after}")


def notes(outcome: Outcome) -> list[str]:
    """What makes a figure say less than it seems to."""
    title = outcome.figure.title
    found = [f"{title}: FAILED: {outcome.failure}"] if outcome.failure else []
    waiting = []
    for kind, runs in outcome.runs.items():
        lost = sum(run.lost for run in runs)
        if lost:
            found.append(f"{title}: {lost:,} messages of QoS 0 were dropped by {kind}")
        load = statistics.median(run.load_cpu for run in runs)
        broker = statistics.median(run.broker_cpu for run in runs)
        if broker < _BROKER_BUSY and outcome.figure.measure == "per_second" and kind != NOBODY.name:
            cause = " (the load was the limit)" if load >= _LOAD_BUSY else ""
            waiting.append(f"{kind} {broker:.0%}, load {load:.0%}{cause}")
    if waiting:
        ratio = outcome.ratio_per_cpu
        fair = "" if ratio is None else f"; ratio per second of broker CPU {ratio:.2f}x"
        found.append(f"{title}: no core was full: {'; '.join(waiting)}{fair}")
    ours, before = outcome.per_cpu_second(outcome.figure.ours[0].name), outcome.per_cpu_second("before")
    if ours and before:
        worse = "; WORSE" if outcome.is_worse else ""
        found.append(
            f"{title}: broker CPU per message {1e6 / ours:.3f} µs, before {1e6 / before:.3f} µs (medians); "
            f"the least of each: {outcome.cpu_beside_before:.3f}x{worse}"
        )
    return found


def _row(outcome: Outcome) -> Row:
    figure = outcome.figure
    first = figure.ours[0]
    plain = "" if first is STORING else _value(outcome, first.name)
    storing = _value(outcome, STORING.name) if STORING in figure.ours else ""
    beside = "" if figure.peer is None else _value(outcome, figure.peer.name)
    ratio = f"{outcome.ratio:.2f}x" if outcome.ratio is not None else ""
    verdict = {True: "met", False: "MISSED", None: ""}[outcome.met]
    return figure.title, plain, storing, _value(outcome, "before"), beside, ratio, _target(figure), verdict


def _value(outcome: Outcome, kind: str) -> str:
    values = outcome.values.get(kind)
    if not values:
        return ""
    value, unit = statistics.median(values), outcome.figure.unit
    if unit == " s":
        return f"{value:.2f}{unit}"
    runs = outcome.runs.get(kind, [])
    middle = statistics.median(run.p50_us for run in runs) if outcome.figure.measure == "p99_us" and runs else None
    return f"{value:,.0f}{unit}" if middle is None else f"{value:,.0f}{unit} (p50 {middle:,.0f})"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≤" if figure.at_most else "≥"
    return f"{sign} {figure.target:g}x" if figure.peer is not None else f"{sign} {figure.target:,g}{figure.unit}"
