"""Makes DataFrames of the views and jobs of a pipeline: as streams, as what one micro-batch read, or over a sample.

`ViewBuilder` knows what a view is made of and nothing of where messages come from: that is said by the function it is
given. So the dry run, the check of a file and the running query are built by the same code.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.datasource.decoding import DECODE_ERROR, DROP, PERMISSIVE
from heliograph.pipeline.datasource.schema import MESSAGE_SCHEMA
from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.files.definition import Pipeline, RuleJob, Source, StaticTable, View, Watermark
from heliograph.pipeline.sinks.interface import INSTALL
from heliograph.pipeline.sinks.spark.template_columns import quoted
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.spark import apply_rule, plan_rule

#: Beginnings of the names of the metrics in a query's progress; the name of the view follows.
RULE_METRICS: Final = "heliograph_rule_"

#: The name of the number of messages of a source that could not be decoded.
DECODE_FAILED: Final = "decode_failed"

#: Where Spark keeps the delay of a watermark, in the metadata of the time column.
DELAY_KEY: Final = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class ViewInput:
    """The stored messages that a view is made of."""

    view: str
    topics: tuple[str, ...]
    columns: tuple[str, ...] | None
    options: Mapping[str, str]


ReadMessages = Callable[[SparkSession, ViewInput], DataFrame]


class ViewBuilder:
    """Builds the DataFrames of one query in a Spark session of its own, so that equal names of views do not meet.

    Args:
        starts: Where a view begins, in the place of the option ``start``.
    """

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        source: Mapping[str, str],
        read: ReadMessages,
        starts: Mapping[str, str] | None = None,
    ) -> None:
        # A clone knows the data sources of its origin; a new session would not.
        self.session = SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
        self._pipeline = pipeline
        self._source = source
        self._read = read
        self._starts = starts or {}

    def __repr__(self) -> str:
        return f"ViewBuilder({', '.join(self._pipeline.query_names)})"

    def messages(self, name: str) -> ViewInput:
        """The messages that a view is made of, with all options of their read."""
        view = self._pipeline.view(name)
        topics = view_topics(view)
        if isinstance(view, Source):
            return self._messages(name, topics, None)
        rule = CompiledRule(view.sql)
        wanted = {"topic", *plan_rule(rule, view.columns).reads}
        columns = tuple(column for column in MESSAGE_SCHEMA.fieldNames() if column in wanted)
        return self._messages(name, topics, columns)

    def rows(self, name: str) -> DataFrame:
        """The rows of a query, before those without a required column are left out."""
        if name in self._pipeline.rules:
            return self.view(name)
        job = self._pipeline.stream_sql[name]
        for view in job.views:
            watermark = job.watermark or self._pipeline.view(view).watermark
            self.view(view, watermark).createOrReplaceTempView(view)
        for table in job.tables:
            self._table(self._pipeline.tables[table]).createOrReplaceTempView(table)
        return self.session.sql(job.sql)

    def view(self, name: str, watermark: Watermark | None = None) -> DataFrame:
        """The rows of a view, with its watermark and without duplicates."""
        view = self._pipeline.view(name)
        rows = self._rule(view) if isinstance(view, RuleJob) else self._source_rows(view)
        return _bounded(rows, view, watermark or view.watermark)

    def _rule(self, rule: RuleJob) -> DataFrame:
        messages = self._read(self.session, self.messages(rule.name))
        metrics, schemas = RULE_METRICS + rule.name, self._pipeline.schemas
        return apply_rule(messages, CompiledRule(rule.sql), rule.columns, observe_as=metrics, schemas=schemas)

    def _source_rows(self, source: Source) -> DataFrame:
        messages = self._read(self.session, self.messages(source.name))
        counts = [F.count(F.lit(1)).alias("matched")]
        if not source.is_decoded:
            return messages.observe(RULE_METRICS + source.name, *counts)
        rows = messages.observe(RULE_METRICS + source.name, *counts, F.count(DECODE_ERROR).alias(DECODE_FAILED))
        is_whole = source.dead_letters or source.options.get("mode", "").upper() == DROP
        return rows.where(F.col(DECODE_ERROR).isNull()) if is_whole else rows

    def _messages(self, name: str, topics: Sequence[str], columns: tuple[str, ...] | None) -> ViewInput:
        options = source_options(self._pipeline, name, self._source)
        if name in self._starts:
            options["start"] = self._starts[name]
        options["topics"] = json.dumps(list(topics))
        if columns is None and options.get("mode", "").upper() == DROP:
            options["mode"] = PERMISSIVE  # what is left out is counted before
        if columns is not None:
            options["columns"] = ",".join(columns)
        return ViewInput(name, tuple(topics), columns, options)

    def _table(self, table: StaticTable) -> DataFrame:
        if table.type == "delta":
            return self.session.createDataFrame(_delta(table))
        try:
            return self.session.read.format(table.type).options(**table.options).load(table.path)
        except AnalysisException as error:
            line = (str(error).splitlines() or [""])[0]
            raise RuleFileError(f"{table.origin}: the table {table.name} cannot be read: {line}") from error


def view_topics(view: View) -> tuple[str, ...]:
    return view.topics if isinstance(view, Source) else tuple(CompiledRule(view.sql).topics)


def source_options(pipeline: Pipeline, name: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options of the data source for a view: those that the driver was given, and before them its source's."""
    view = pipeline.view(name)
    source = view if isinstance(view, Source) else pipeline.sources[view.source] if view.source else None
    return {**given, **(source.options if source is not None else {})}


def complete_rows(rows: DataFrame, required: Sequence[str], observe_as: str) -> DataFrame:
    """The rows that have every required column; the others are counted."""
    if not required:
        return rows
    has_all = F.lit(True)
    for column in required:
        has_all = has_all & F.col(quoted(column)).isNotNull()
    return rows.observe(observe_as, F.count_if(~has_all).alias("rows")).where(has_all)


def _bounded(rows: DataFrame, view: View, watermark: Watermark | None) -> DataFrame:
    """The rows with their watermark, each once."""
    columns = list(view.deduplicate)
    if rows.isStreaming:
        if watermark is not None:
            rows = rows.withWatermark(watermark.column, watermark.delay)
        return rows.dropDuplicatesWithinWatermark(columns) if columns else rows
    if watermark is not None:
        # Spark takes watermarks out of tables; the mark of the column stays, and says which column is the time.
        marked = F.col(quoted(watermark.column)).alias(watermark.column, metadata={DELAY_KEY: 0})
        rows = rows.select(*[marked if name == watermark.column else F.col(quoted(name)) for name in rows.columns])
    return rows.dropDuplicates(columns) if columns else rows


def _delta(table: StaticTable) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise SinkError(f"Delta tables need the package deltalake: {INSTALL}") from error
    try:
        return DeltaTable(table.path, storage_options=dict(table.options) or None).to_pyarrow_table()
    except Exception as error:  # the library raises its own kinds, of many sorts
        raise RuleFileError(f"{table.origin}: the table {table.name} cannot be read: {error}") from error
