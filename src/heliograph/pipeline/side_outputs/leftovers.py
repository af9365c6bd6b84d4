"""What a micro-batch leaves out, found and kept before the batch is done: dead letters and late rows.

While Spark writes a batch it counts the rows that fail, lack something or are late. `Leftovers` looks at these counts
behind the sink, and does nothing more where they are zero. A sink that had committed the batch before a crash does not
have it computed again, so nothing is counted then; such a batch is looked through whatever the counts say.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructType

from heliograph.actions.fallback_calls import FallbackRow
from heliograph.pipeline.datasource.offsets import Offset, initial_offset
from heliograph.pipeline.files.definition import Pipeline, RuleJob, Source
from heliograph.pipeline.running.batch_log import BatchLog, read_batch_log
from heliograph.pipeline.running.ranges import read_range
from heliograph.pipeline.running.views import DECODE_FAILED, RULE_METRICS, ViewBuilder, ViewInput
from heliograph.pipeline.side_outputs.dead_letters import (
    LetterHead,
    letters_of_rule,
    letters_of_sink,
    letters_of_source,
    letters_without_message,
)
from heliograph.pipeline.side_outputs.fallbacks import NodeFallbacks
from heliograph.pipeline.side_outputs.late_rows import late_rows
from heliograph.pipeline.side_outputs.lineage import Input
from heliograph.pipeline.side_outputs.refused_rows import RefusedRows
from heliograph.pipeline.side_outputs.side_tables import SideTable
from heliograph.rules.spark.frames import evaluate_outcomes

logger = logging.getLogger(__name__)

#: Names of the metrics of the rows of a query's output, and of those that lack a required column.
OUTPUT_METRICS: Final = "heliograph_output"
REFUSED_METRICS: Final = "heliograph_refused"

_DROPPED: Final = "numRowsDroppedByWatermark"


@dataclass(frozen=True)
class BatchFacts:
    """What Spark has counted of the batch that it is running, with the rows that it dropped as late."""

    observed: Mapping[str, Mapping[str, int]]
    dropped: int

    @staticmethod
    def of(execution: Any) -> "BatchFacts":
        observed = {}
        names = execution.observedMetrics().keysIterator()
        while names.hasNext():
            name = names.next()
            row = execution.observedMetrics().apply(name)
            fields = row.schema().fieldNames()
            observed[name] = {fields[number]: row.get(number) or 0 for number in range(row.size())}
        return BatchFacts(observed, _dropped(execution.executedPlan()))

    @property
    def is_computed(self) -> bool:
        return any(counts.get("matched", 0) for counts in self.observed.values()) or self.output > 0

    @property
    def output(self) -> int:
        return self.observed.get(OUTPUT_METRICS, {}).get("rows", 0)

    @property
    def lacking(self) -> int:
        return self.observed.get(REFUSED_METRICS, {}).get("rows", 0)

    def failed(self, view: str) -> int:
        return self.observed.get(RULE_METRICS + view, {}).get("failed", 0)

    def decode_failed(self, source: str) -> int:
        return self.observed.get(RULE_METRICS + source, {}).get(DECODE_FAILED, 0)


@dataclass
class Kept:
    letters: int = 0
    late: int = 0
    fallen_back: int = 0


@dataclass(frozen=True)
class Leftovers:
    """Keeps what the batches of one query leave out; its inputs are in Spark's order."""

    session: SparkSession
    pipeline: Pipeline
    name: str
    source: Mapping[str, str]
    output: Path
    directory: Path
    owner: str
    starts: Mapping[str, str]
    inputs: Sequence[Input]
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def keep(self, batch: int, facts: BatchFacts, refusals: RefusedRows, schema: StructType) -> Kept:
        """Keep what a batch left out; called when the sink has it, before Spark takes it for done."""
        failed = sum(facts.failed(rule.name) for rule in self._judged_rules())
        failed += sum(facts.decode_failed(source.name) for source in self._judged_sources())
        has_letters = failed or facts.lacking or refusals.kept
        has_late = facts.dropped and any(each.late_at for each in self.inputs)
        if facts.is_computed and not has_letters and not has_late:
            return Kept()
        now = read_batch_log(self.directory, batch)
        if now is None:
            return Kept()
        before = read_batch_log(self.directory, batch - 1) if batch else None
        ranges = self._ranges(before, now)
        is_empty = all(start == end for start, end in ranges)
        if is_empty and not has_letters:
            return Kept()
        is_sure = facts.is_computed
        kept = Kept()
        if has_letters or not is_sure:
            kept.letters, kept.fallen_back = self._keep_letters(batch, ranges, refusals, schema)
        if has_late or (not is_sure and before is not None):
            kept.late = self._keep_late(batch, ranges, before.watermark_ms if before is not None else 0)
        refusals.forget()
        return kept

    def _judged_rules(self) -> list[RuleJob]:
        """The rules whose failures become letters of this query; those with a sink are letters of their own one."""
        if self.name in self.pipeline.rules:
            return [self.pipeline.rules[self.name]]
        views = self.pipeline.stream_sql[self.name].views
        rules = [self.pipeline.rules[view] for view in views if view in self.pipeline.rules]
        return [rule for rule in rules if rule.sink is None]

    def _judged_sources(self) -> list[Source]:
        sources = (self.pipeline.sources.get(view) for view in self.pipeline.job(self.name).views)
        return [source for source in sources if source is not None and source.dead_letters]

    def _ranges(self, before: BatchLog | None, now: BatchLog) -> list[tuple[Offset, Offset]]:
        ranges = []
        for number, each in enumerate(self.inputs):
            start = before.offsets[number] if before is not None else None
            began = start or initial_offset(self.starts[each.view])
            ranges.append((began, now.offsets[number] or began))
        return ranges

    def _keep_letters(
        self, batch: int, ranges: Sequence[tuple[Offset, Offset]], refusals: RefusedRows, schema: StructType
    ) -> tuple[int, int]:
        """How many letters were kept, and how many rows went to fallback actions."""
        settings, head = self.pipeline.dead_letters, LetterHead(self.clock(), self.name, batch)
        builder, schemas = self._builder({}), self.pipeline.schemas
        parts = []
        for rule in self._judged_rules():
            number = next(number for number, each in enumerate(self.inputs) if each.view == rule.name)
            messages = self._all_columns(builder, rule.name, ranges[number])
            parts.append(letters_of_rule(messages, rule, schemas, head))
        for source in self._judged_sources():
            number = next(number for number, each in enumerate(self.inputs) if each.view == source.name)
            parts.append(letters_of_source(self._all_columns(builder, source.name, ranges[number]), source.name, head))
        unreadable = [refusal for refusal in refusals.kept if refusal.is_unreadable]
        if unreadable:
            parts.append(letters_without_message(builder.session, unreadable, head))
        readable = [refusal for refusal in refusals.kept if not refusal.is_unreadable]
        if readable:
            own = self.pipeline.rules.get(self.name)
            judged = None
            if own is not None:
                messages = self._all_columns(builder, own.name, ranges[0])
                judged = evaluate_outcomes(messages, own.sql, own.columns, schemas)
            try:
                parts.append(letters_of_sink(builder.session, readable, schema, judged, head))
            except (PySparkException, TypeError, ValueError, AttributeError) as error:
                logger.warning("%s: refused rows are kept as text: %s", self.name, error)
                parts.append(letters_without_message(builder.session, readable, head))
        if not parts:
            return 0, 0
        letters, fallen_back = reduce(DataFrame.unionByName, parts), 0
        own = self.pipeline.rules.get(self.name)
        if own is not None and own.fallbacks is not None:
            letters, fallen_back, is_none_left = _given_to(own.fallbacks, builder.session, letters)
            if is_none_left:
                return 0, fallen_back
        letters = letters.limit(settings.batch_rows_max)
        return SideTable(self.output / settings.path / self.name, self.owner).write(letters, batch), fallen_back

    def _keep_late(self, batch: int, ranges: Sequence[tuple[Offset, Offset]], watermark_ms: int) -> int:
        parts = []
        for number, each in enumerate(self.inputs):
            start, end = ranges[number]
            if each.late_at is None or start == end:
                continue
            # One input at a time, since one view may be two inputs whose offsets differ.
            builder = self._builder({each.view: (start, end)})
            rows = builder.rows(self.name)
            late = late_rows(builder.session, rows, each.late_at, each.view, watermark_ms, batch)
            if late is not None:
                parts.append(late)
        if not parts:
            return 0
        # The sessions share one Spark; rows of several inputs are written by that of the first.
        rows = reduce(DataFrame.unionByName, parts)
        return SideTable(self.output / self.pipeline.late.path / self.name, self.owner).write(rows, batch)

    def _builder(self, ranges: Mapping[str, tuple[Offset, Offset]]) -> ViewBuilder:
        def read(session: SparkSession, messages: ViewInput) -> DataFrame:
            start, end = ranges.get(messages.view, ({"streams": {}}, {"streams": {}}))
            return read_range(session, dict(messages.options), start, end)

        return ViewBuilder(self.session, self.pipeline, self.source, read, self.starts)

    def _all_columns(self, builder: ViewBuilder, view: str, span: tuple[Offset, Offset]) -> DataFrame:
        options = dict(builder.messages(view).options)
        options.pop("columns", None)
        return read_range(builder.session, options, *span)


def _given_to(fallbacks: NodeFallbacks, session: SparkSession, letters: DataFrame) -> tuple[DataFrame, int, bool]:
    """Give letters to fallback actions: those that stay letters, how many do not, and whether that is all of them."""
    rows = letters.select("guid", "topic", "clientid", "payload").collect()
    found = [row for row in rows if row["topic"] is not None]
    given = [FallbackRow(row["topic"], row["clientid"], bytes(row["payload"])) for row in found]
    failures = fallbacks.give(given)
    taken = {bytes(row["guid"]) for number, row in enumerate(found) if number not in failures}
    why = [(bytes(found[number]["guid"]), reason) for number, reason in failures.items()]
    reasons = session.createDataFrame(why, "guid binary, _why string")
    done = session.createDataFrame([(guid,) for guid in taken], "guid binary")
    stay = letters.join(done, "guid", "left_anti").join(reasons, "guid", "left")
    stay = stay.withColumn("reason", F.concat_ws("; ", "reason", "_why")).select(*letters.columns)
    return stay, len(found) - len(failures), len(rows) == len(found) and not failures


def _dropped(node: Any) -> int:
    metrics = node.metrics()
    own = int(metrics.apply(_DROPPED).value()) if metrics.contains(_DROPPED) else 0
    children = node.children()
    return own + sum(_dropped(children.apply(child)) for child in range(children.size()))
