"""The queries of actions over all starts of the pipeline: their names, states, and counts under EMQX's names."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from heliograph.observe.rate import CountRate

_DROPPED: Final = ("dropped.expired", "dropped.queue_full")
COUNTED: Final = ("matched", "success", "failed", "retried", "late_reply", *_DROPPED)

# Counts of EMQX's for what does not happen here: rows wait in the storage while a target is away.
_NEVER: Final = ("dropped.other", "dropped.resource_not_found", "dropped.resource_stopped", "received")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_NAME_LENGTH_MAX: Final = 80


@dataclass(slots=True)
class ActionFigures:
    """What is known of one action; owned by `PipelineFigures`.

    Attributes:
        state: Of its query, in the words of the driver; empty while there is none.
        failures_in_row: How often its query failed since it last worked.
        is_starting_again: Whether a person has asked for that, and the driver has yet to say what became of it.
    """

    state: str = ""
    error: str = ""
    failures_in_row: int = 0
    is_starting_again: bool = False
    _failures: int = 0
    lag: int | None = None
    under_way: int = 0
    rate: CountRate = field(default_factory=CountRate)
    _now: Counter[str] = field(default_factory=Counter)
    _before: Counter[str] = field(default_factory=Counter)
    _zero: Counter[str] = field(default_factory=Counter)

    def take(self, row: Mapping[str, Any]) -> None:
        self.state, self.error, self.lag = str(row["state"]), str(row.get("last_error") or ""), row.get("lag")
        self.failures_in_row = int(row.get("failures_in_row") or 0)
        failures = int(row.get("failures") or 0)
        if failures != self._failures or not self.failures_in_row:
            self.is_starting_again = False
        self._failures = failures
        written, refused = int(row["rows_written"]), int(row["rows_refused"])
        retries = int(row.get("sink_figures", {}).get("retries", 0)) + int(row.get("restarts") or 0)
        now = Counter(matched=written + refused, success=written, failed=refused, retried=retries)
        now["late_reply"] = int(row.get("rows_answered_late") or 0)
        now["dropped.expired"] = int(row.get("rows_lost") or 0) + int(row.get("rows_expired") or 0)
        now["dropped.queue_full"] = int(row.get("rows_crowded_out") or 0)
        self.under_way = int(row.get("rows_under_way") or 0)
        if any(now[name] < self._now[name] for name in COUNTED):  # another driver, or the query is new
            self._before.update(self._now)
        self._now = now

    def end(self) -> None:
        """The driver has ended, or has no such query any more."""
        self.state, self.lag, self.under_way = "", None, 0

    def start_again(self) -> None:
        """The driver is asked to start it again, if it failed."""
        self.is_starting_again = self.failures_in_row > 0

    def reset(self) -> None:
        self._zero = self._before + self._now
        self.rate = CountRate()

    def count(self, name: str) -> int:
        return self._before[name] + self._now[name] - self._zero[name]

    def numbers(self) -> dict[str, int]:
        counts = {name: self.count(name) for name in COUNTED}
        counts["dropped"] = sum(counts[name] for name in _DROPPED)
        waiting = {"inflight": self.under_way, "queuing": self.lag or 0, "queuing_bytes": 0}
        return {**counts, **dict.fromkeys(_NEVER, 0), **waiting}


class PipelineFigures:
    """What the pipeline says of all actions; owned by the part `actions`."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.problem = ""
        self._of: dict[str, ActionFigures] = {}
        self._seen = 0

    def find(self, query: str) -> ActionFigures:
        return self._of.setdefault(query, ActionFigures())

    def keep(self, queries: Set[str]) -> None:
        self._of = {query: self.find(query) for query in queries}

    def read(self, file: Path) -> Mapping[str, Any] | None:
        """What the driver has written since the last call; None for nothing. Called in a thread."""
        try:
            written_at = file.stat().st_mtime_ns
            if written_at == self._seen:
                return None
            document = json.loads(file.read_bytes())
        except (OSError, ValueError):
            return None  # it has yet to write, or is about to
        self._seen = written_at
        return document if isinstance(document, dict) else None

    def take(self, document: Mapping[str, Any]) -> None:
        self.pid, self.problem = document.get("pid"), str(document.get("reload_error") or "")
        rows = {row["name"]: row for row in document.get("queries", ())}
        for query, figures in self._of.items():
            if query in rows:
                figures.take(rows[query])
            else:
                figures.end()

    def end(self) -> None:
        self.pid = None
        for figures in self._of.values():
            figures.end()

    def look(self) -> None:
        """Look at how fast counts grow; called every `LOOK_S` seconds."""
        for figures in self._of.values():
            figures.rate.look(figures.count("matched"))

    def __repr__(self) -> str:
        return f"PipelineFigures({len(self._of)} actions)"


def query_name(action_id: str) -> str:
    """The name of the query for an action: of its type and name, and no other action's."""
    digest = hashlib.sha256(action_id.encode()).hexdigest()[:8]
    return f"action_{_NOT_IN_NAMES.sub('_', action_id)[:_NAME_LENGTH_MAX]}_{digest}"
