"""The dry run: what each query of a pipeline makes of the last stored messages, without writing anything."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.datasource.client import MessageSelection
from heliograph.pipeline.datasource.options import EARLIEST, SourceOptions
from heliograph.pipeline.datasource.source import FORMAT
from heliograph.pipeline.errors import RuleFileError, sentence_of
from heliograph.pipeline.files.definition import Pipeline
from heliograph.pipeline.running.starts import newest, storage_readers
from heliograph.pipeline.running.views import ViewBuilder, ViewInput, complete_rows
from heliograph.pipeline.side_outputs.leftovers import REFUSED_METRICS
from heliograph.pipeline.sinks.probing import table_changes
from heliograph.pipeline.sinks.spark.arrow_rows import fields_of
from heliograph.rules.spark import plan_rule
from heliograph.rules.spark.frames import evaluate_outcomes

_ROWS_SHOWN: Final = 100
_REASONS_SHOWN: Final = 3
_FIRST_SPAN_US: Final = 60_000_000
_WIDEN: Final = 16


@dataclass(frozen=True)
class Preview:
    """What one query made of the last messages.

    Attributes:
        engine: ``native``, ``udf`` or ``Spark SQL``.
        parts: Of each output column of a rule, and of its WHERE: its name, ``native`` or ``udf`` as it could run by
            itself, and why. One part that needs the UDF takes the whole rule there.
        refused: Rows without a required column.
        changes: What a batch would change in the definition of its table, as `adds the column temp (double)`.
        table_fault: Why its table cannot take such rows, or cannot be asked.
    """

    name: str
    engine: str
    parts: tuple[tuple[str, str, str], ...]
    source: str
    target: str
    guarantee: str
    columns: tuple[tuple[str, str], ...]
    messages: int
    failed: int
    refused: int
    rows_count: int
    rows: tuple[dict[str, Any], ...]
    reasons: tuple[str, ...]
    changes: tuple[str, ...]
    table_fault: str | None

    def to_json(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}


def preview_queries(
    session: SparkSession, pipeline: Pipeline, names: Sequence[str], source: Mapping[str, str], last: int, output: Path
) -> Iterator[Preview]:
    """Run queries over the last stored messages of each of their views.

    Args:
        output: Where the tables are, which is not written to.
    """
    for name in names:
        try:
            yield _Previewer(session, pipeline, name, source, last, output).preview()
        except (AnalysisException, ParseException, ValueError) as error:
            raise RuleFileError(f"{pipeline.job(name).origin}: {name}: {sentence_of(error)}") from error


class _Previewer:
    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        name: str,
        source: Mapping[str, str],
        last: int,
        output: Path,
    ) -> None:
        self._pipeline = pipeline
        self._name = name
        self._last = last
        self._output = output
        self._begins: dict[str, str] = {}
        self._builder = ViewBuilder(session, pipeline, source, self._read)

    def preview(self) -> Preview:
        job, sink = self._pipeline.job(self._name), self._pipeline.sink(self._name)
        judged = [self._judge(view) for view in job.views]
        rows = self._builder.rows(self._name)
        complete = complete_rows(rows, job.required, REFUSED_METRICS)
        shown = complete.limit(_ROWS_SHOWN).collect()
        count = len(shown) if len(shown) < _ROWS_SHOWN else complete.count()
        changes, fault = table_changes(sink, fields_of(rows.schema), self._output)
        sources = [f"{view}: {', '.join(self._builder.messages(view).topics)}" for view in job.views]
        return Preview(
            name=self._name,
            engine=self._engine(),
            parts=self._parts(),
            source="; ".join(sources),
            target=sink.target,
            guarantee=str(sink.guarantee),
            columns=tuple((field.name, field.dataType.simpleString()) for field in rows.schema.fields),
            messages=sum(messages for messages, _ in judged),
            failed=sum(len(reasons) for _, reasons in judged),
            refused=rows.count() - count if job.required else 0,
            rows_count=count,
            rows=tuple(row.asDict(recursive=True) for row in shown),
            reasons=tuple(reason for _, reasons in judged for reason in reasons)[:_REASONS_SHOWN],
            changes=tuple(changes),
            table_fault=fault,
        )

    def _parts(self) -> tuple[tuple[str, str, str], ...]:
        rule = self._pipeline.rules.get(self._name)
        return () if rule is None else plan_rule(rule.sql, rule.columns).parts

    def _engine(self) -> str:
        rule = self._pipeline.rules.get(self._name)
        return "Spark SQL" if rule is None else plan_rule(rule.sql, rule.columns).engine

    def _judge(self, view: str) -> tuple[int, list[str]]:
        """How many messages a view has, and why its rule failed on some."""
        messages = replace(self._builder.messages(view), columns=None)
        rows = self._read(self._builder.session, messages)
        rule = self._pipeline.rules.get(view)
        if rule is None:
            return rows.count(), []
        judged = evaluate_outcomes(rows, rule.sql, rule.columns, self._pipeline.schemas).select("error").collect()
        return len(judged), [row["error"] for row in judged if row["error"] is not None]

    def _read(self, session: SparkSession, messages: ViewInput) -> DataFrame:
        options = dict(messages.options)
        if messages.view not in self._begins:
            self._begins[messages.view] = _begin_of_last(options, self._last)
        options["start"] = self._begins[messages.view]
        options.pop("columns", None)
        rows = session.read.format(FORMAT).options(**options).load()
        if "stored_at" in rows.columns:
            rows = rows.orderBy(F.col("stored_at").desc()).limit(self._last)
        return rows.select(*messages.columns) if messages.columns is not None else rows


def _begin_of_last(options: Mapping[str, str], count: int) -> str:
    """A time since which about so many messages of some topics were stored, or more."""
    last = newest(options)
    if last is None:
        return EARLIEST
    selection = SourceOptions.of({**options, "start": EARLIEST}).selection(None)
    span = _FIRST_SPAN_US
    while span < last:
        times = _newest_times(options, replace(selection, start=last - span), count)
        if len(times) >= count:
            return str(times[-1])
        span *= _WIDEN
    return EARLIEST


def _newest_times(options: Mapping[str, str], selection: MessageSelection, count: int) -> list[int]:
    """When the newest messages of a selection were stored, the newest first; none where there are too few."""
    source = SourceOptions.of(options)
    with storage_readers(options) as readers:
        plan = readers.plan(selection)
        if plan.messages < count:
            return []  # messages of other topics are counted too, so there are no more than these
        times: list[int] = []
        for stream, step in plan.streams.items():
            endpoint, own = readers.locate(stream)
            with source.connect(endpoint) as client:
                for batch in client.read(selection, own, "", step.position or None, ["stored_at"]):
                    found = pc.cast(batch.column("stored_at"), "int64").to_pylist()
                    times = heapq.nlargest(count, [*times, *found])
    return times
