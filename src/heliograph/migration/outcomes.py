"""What became of each setting of another broker's configuration, as lines of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

KEPT: Final = "kept"
CHANGED: Final = "changed"
DROPPED: Final = "dropped"
REFUSED: Final = "cannot be imported"
KINDS: Final = (KEPT, CHANGED, DROPPED, REFUSED)


@dataclass(frozen=True, slots=True)
class ForeignLine:
    """Where a setting stands; line 0 for what no file says, or for a file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What became of a setting.

    Attributes:
        kind: `kept`, `changed`, `dropped` or `cannot be imported`.
        setting: The setting as the other broker has it, without secrets.
        here: What it is here, such as `mqtt.max_inflight = 20`; empty for nothing.
        reason: Why it is changed or not there, and what to do. A setting that is kept may have none.
        loses_login: Whether a user cannot log in any more because of it.
    """

    place: ForeignLine
    kind: str
    setting: str
    here: str = ""
    reason: str = ""
    loses_login: bool = False

    def __str__(self) -> str:
        verb = {KEPT: f"{KEPT} as {self.here}", CHANGED: f"{CHANGED} to {self.here}"}.get(self.kind, self.kind)
        return f"{self.place}: {self.setting}: {verb}{f': {self.reason}' if self.reason else ''}"


def report_lines(outcomes: Sequence[ImportOutcome]) -> Iterator[str]:
    """The report: a line for each setting, and how many there are of each kind."""
    yield from map(str, outcomes)
    counts = {kind: sum(outcome.kind == kind for outcome in outcomes) for kind in KINDS}
    yield ", ".join(f"{count} {kind}" for kind, count in counts.items())
