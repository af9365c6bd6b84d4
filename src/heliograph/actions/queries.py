"""The queries of the pipeline over all starts of its driver: metrics, and alarms where one fails or loses rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Metric, Sample, counter, gauge

FAILING: Final = "pipeline_query_failing"
ROWS_LOST: Final = "action_rows_lost"
RUNNING: Final = "running"
RETRYING: Final = "retrying"
FAILED: Final = ("waiting to restart", "failed", "interrupted")

_PREFIX: Final = "pipeline.query"
_LABELS: Final = ("query",)
_COUNTS: Final = {
    "rows_read": "Messages that a query of the pipeline read.",
    "rows_written": "Rows that it brought to its sink.",
    "rows_failed": "Messages on which its rule failed.",
    "rows_refused": "Rows that lacked a required column, or that its sink refused.",
    "rows_fallen_back": "Of the refused rows, those that its fallback actions took.",
    "rows_lost": "Rows at least that retention removed before they were at their target; of actions without Spark.",
    "rows_late": "Rows that came later than its watermark allows.",
    "decode_failed": "Messages of its sources that could not be decoded.",
    "dead_letters": "Dead letters that it kept.",
    "failures": "Times that it failed.",
}
QUERIES: Final[tuple[Metric, ...]] = (
    gauge(f"{_PREFIX}.running", "1 while a query runs, and its last start did not fail.", "", _LABELS),
    gauge(f"{_PREFIX}.lag", "Messages of its topics that it has yet to read; absent while unknown.", "", _LABELS),
    gauge(f"{_PREFIX}.behind", "How long the oldest of them has waited; absent while unknown.", "seconds", _LABELS),
    gauge(
        f"{_PREFIX}.batch_bytes",
        "Bytes of the rows that it holds, of the batch that it writes; of actions without Spark.",
        "bytes",
        _LABELS,
    ),
    *(counter(f"{_PREFIX}.{name}", meaning, "", _LABELS) for name, meaning in _COUNTS.items()),
)


@dataclass(slots=True)
class _Query:
    row: Mapping[str, Any] = field(default_factory=dict)
    now: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
    lost_shown: int = 0

    def take(self, row: Mapping[str, Any]) -> None:
        now = Counter({name: int(row.get(name) or 0) for name in _COUNTS})
        if any(now[name] < self.now[name] for name in _COUNTS):  # another driver, or the query is new
            self.before.update(self.now)
        self.row, self.now = row, now

    @property
    def is_failing(self) -> bool:
        return self.row.get("state") in FAILED or bool(self.row.get("failures_in_row"))


class PipelineQueries:
    """The queries of a node's pipeline; owned by its part `actions`, which reads what the driver writes.

    Args:
        alarms: One stands for each query that fails, until it has worked again; and one for each that lost rows, until
            a person ends it, since nothing brings them back.
        shown: The name of the action that a query is for; the query's own for others.
    """

    def __init__(self, alarms: Alarms, shown: Callable[[str], str]) -> None:
        self._alarms = alarms
        self._shown = shown
        self._of: dict[str, _Query] = {}

    def take(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take what the driver says of its queries; one that it does not name is over."""
        found = {str(row["name"]): row for row in rows}
        for name in [name for name in self._of if name not in found]:
            self._forget(name)
        for name, row in found.items():
            query = self._of.setdefault(name, _Query())
            query.take(row)
            self._tell(name, query)
            self._tell_loss(name, query)

    def lose_sight(self) -> None:
        """The driver does not run: how its queries are is not known, and what they counted stays."""
        for query in self._of.values():
            query.row = {**query.row, "state": "", "lag": None, "behind_s": None, "batch_bytes": None}

    def end(self) -> None:
        """There is no pipeline any more."""
        for name in list(self._of):
            self._forget(name)

    def _tell(self, name: str, query: _Query) -> None:
        shown = self._shown(name)
        alarm = f"{FAILING}/{shown}"
        if not query.is_failing:
            self._alarms.deactivate(alarm)
            return
        error = str(query.row.get("last_error") or f"it is {query.row['state']}")
        message = f"{shown} fails, and its rows wait: {error}"
        details = {"query": name, "state": query.row["state"], "reason": error}
        # The broker does its work meanwhile, and to start it again would not help.
        if not self._alarms.activate(alarm, message, details, logs_message=True, degrades=False):
            self._alarms.update(alarm, message, details)

    def _tell_loss(self, name: str, query: _Query) -> None:
        lost = query.before["rows_lost"] + query.now["rows_lost"]
        if lost <= query.lost_shown:
            return
        query.lost_shown = lost
        shown = self._shown(name)
        alarm = f"{ROWS_LOST}/{shown}"
        message = (
            f"retention removed {lost} rows at least before {shown} had them: keep messages longer "
            "(durable_storage.messages.retention), or look why its target was away. The alarm ends when a person "
            f"has taken note (heliograph ctl alarms deactivate {alarm}), or the node starts again"
        )
        details = {"query": name, "rows": lost}
        if not self._alarms.activate(alarm, message, details, logs_message=True, degrades=False):
            self._alarms.update(alarm, message, details)

    def _forget(self, name: str) -> None:
        del self._of[name]
        self._alarms.deactivate(f"{FAILING}/{self._shown(name)}")

    def samples(self) -> list[Sample]:
        samples: list[Sample] = []
        for name, query in self._of.items():
            labels = (self._shown(name),)
            is_running = query.row.get("state") in (RUNNING, RETRYING) and not query.is_failing
            samples.append(Sample(f"{_PREFIX}.running", int(is_running), labels))
            for metric, key in (("lag", "lag"), ("behind", "behind_s"), ("batch_bytes", "batch_bytes")):
                value = query.row.get(key)
                if value is not None:
                    samples.append(Sample(f"{_PREFIX}.{metric}", value, labels))
            samples += [Sample(f"{_PREFIX}.{one}", query.before[one] + query.now[one], labels) for one in _COUNTS]
        return samples

    def __repr__(self) -> str:
        return f"PipelineQueries({', '.join(self._of)})"
