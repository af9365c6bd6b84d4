"""The table at the end of the benchmarks. Nothing is measured here."""

import statistics
from typing import Final

from benchmarks.brokers import MOSQUITTO, STORING, Kind
from benchmarks.figures import Figure, Outcome

# A broker that used less of its core was waiting for something: for its load, if that used more than the second.
_BROKER_BUSY: Final = 0.85
_LOAD_BUSY: Final = 0.9

_HEADINGS: Final = ("", "heliograph", "storing", "mosquitto", "ratio", "target", "")


def text(outcomes: list[Outcome], conditions: str, with_peer: bool) -> str:
    """The whole table with what there is to say about it."""
    rows = [_HEADINGS, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    notes = [note for outcome in outcomes for note in _notes(outcome)]
    return "\n".join(["", *(line.rstrip() for line in lines), "", conditions, *notes])


def _row(outcome: Outcome) -> tuple[str, ...]:
    figure = outcome.figure
    first, *others = figure.ours
    plain = "" if first is STORING else _value(outcome, first)
    storing = _value(outcome, STORING) if STORING in (first, *others) else ""
    ratio = f"{outcome.ratio:.2f}x" if figure.relative and outcome.ratio is not None else ""
    verdict = {True: "met", False: "MISSED", None: ""}[outcome.met]
    return figure.title, plain, storing, _value(outcome, MOSQUITTO), ratio, _target(figure), verdict


def _value(outcome: Outcome, kind: Kind) -> str:
    value = outcome.median(kind)
    if value is None:
        return ""
    return f"{value:.2f}{outcome.figure.unit}" if outcome.figure.unit == " s" else f"{value:,.0f}{outcome.figure.unit}"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≤" if figure.at_most else "≥"
    return f"{sign} {figure.target:g}x" if figure.relative else f"{sign} {figure.target:,g}{figure.unit}"


def _notes(outcome: Outcome) -> list[str]:
    """What makes a figure say less than it seems to."""
    notes = [f"{outcome.figure.title}: FAILED: {outcome.failure}"] if outcome.failure else []
    waiting = []
    for kind, runs in outcome.runs.items():
        lost = sum(run.lost for run in runs)
        if lost:
            notes.append(f"{outcome.figure.title}: {lost:,} messages of QoS 0 were dropped by {kind}")
        load = statistics.median(run.load_cpu for run in runs)
        broker = statistics.median(run.broker_cpu for run in runs)
        if broker < _BROKER_BUSY:
            cause = " (the load was the limit)" if load >= _LOAD_BUSY else ""
            waiting.append(f"{kind} {broker:.0%}, load {load:.0%}{cause}")
    if waiting:
        ratio = outcome.ratio_per_cpu
        fair = "" if ratio is None else f"; ratio per second of broker CPU {ratio:.2f}x"
        notes.append(f"{outcome.figure.title}: no core was full: {'; '.join(waiting)}{fair}")
    return notes
