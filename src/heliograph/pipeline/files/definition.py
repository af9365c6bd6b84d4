"""What a pipeline consists of, as plain values: sources, tables, rules, jobs in Spark SQL, and where their rows go.

`heliograph.pipeline.files.rulefile` makes these values from files, `heliograph.pipeline.running.queries` makes Spark
queries of them. Two values are equal when they ask for the same, wherever in a file they stand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliograph.hocon.values import Content
from heliograph.pipeline.side_outputs.fallbacks import NodeFallbacks
from heliograph.pipeline.side_outputs.retention import DEFAULT_RETENTION, Retention
from heliograph.pipeline.sinks.interface import OutputMode, Sink
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.settings.fields import required, setting
from heliograph.settings.kinds import Choice, Duration, Integer, Kind, RefusedError, Size, Text, Texts, Unless


@dataclass(frozen=True)
class Watermark:
    """How late a row may come."""

    column: str = required(Text("the name of a column"), "The time column.")
    delay: str = required(Text('a text as in "2 hours"'), "How late a row may come, in Spark's words.")


@dataclass(frozen=True)
class Source:
    """Stored messages as a view for Spark SQL, or as what rules read.

    Attributes:
        options: Options of the data source that go before those of the driver, such as ``database`` and ``start``.
        deduplicate: Columns that identify rows which come twice within the watermark; empty keeps all rows.
        dead_letters: Whether messages with a ``decode_error`` are left out, and become dead letters.
    """

    name: str
    topics: tuple[str, ...]
    options: Mapping[str, str]
    watermark: Watermark | None = None
    deduplicate: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)
    dead_letters: bool = False

    @property
    def is_decoded(self) -> bool:
        return self.options.get("schema", "raw") != "raw"


@dataclass(frozen=True)
class StaticTable:
    """A table that does not change while a query runs, for joins."""

    name: str
    type: str = required(Choice("csv", "delta", "json", "orc", "parquet"), "What it is.")
    path: str = required(Text("a path or a URI"), "Where it lies; a relative path begins at the file that names it.")
    options: Mapping[str, str] = setting(Texts(), {}, "Options of Spark's reader.", is_secret=True)
    origin: str = field(default="", compare=False)


@dataclass(frozen=True)
class RuleJob:
    """A rule whose output rows go to a sink, and are a view for Spark SQL.

    Attributes:
        name: Name in the file; it names the query, its checkpoint and its view in Spark SQL.
        columns: Spark types of output columns; the others have the type that the rule implies.
        sink: Where its rows go; None for a rule that only jobs in Spark SQL read.
        required: Columns without which a row does not go to the sink.
        source: Name of the source whose options hold; None is what the driver says.
        version: Number of the query's checkpoint; another one starts again.
        alone: Whether a mistake that Spark finds in it keeps only this query from running.
        fallbacks: What gets its rows before the dead letters do; None for nothing.
    """

    name: str
    sql: str
    columns: Mapping[str, str]
    sink: Sink | None
    required: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)
    source: str | None = None
    watermark: Watermark | None = None
    deduplicate: tuple[str, ...] = ()
    version: int = 1
    alone: bool = False
    fallbacks: NodeFallbacks | None = None

    @property
    def mode(self) -> OutputMode:
        return OutputMode.APPEND

    @property
    def views(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class StreamSqlJob:
    """A Spark SQL query over views, such as an aggregate over windows of time, or a join.

    Attributes:
        name: Name in the file; it names the query and its checkpoint.
        watermark: How late rows of its only view may come, in the place of what the view says.
        version: Number of the query's checkpoint; another one starts again.
    """

    name: str
    views: tuple[str, ...]
    sql: str
    mode: OutputMode
    sink: Sink
    watermark: Watermark | None = None
    tables: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)
    version: int = 1


Job = RuleJob | StreamSqlJob
View = RuleJob | Source


class PathBelow(Kind[str]):
    expected = "a path below the output directory"
    is_word = True

    def convert(self, value: Content) -> str:
        if not isinstance(value, str) or not value or Path(value).is_absolute() or ".." in Path(value).parts:
            raise RefusedError
        return value


@dataclass(frozen=True)
class LateRowSettings:
    """Where the rows go that come later than a watermark allows."""

    path: str = setting(PathBelow(), "late", "Directory below the output directory.")
    age_s: float | None = setting(
        Unless(Duration(needs_unit=True), "infinity"),
        DEFAULT_RETENTION.age_s,
        "How long rows are kept.",
        name="retention",
    )
    bytes_max: int | None = setting(
        Unless(Size(1), "infinity"), DEFAULT_RETENTION.bytes_max, "How large the table may become.", name="max_bytes"
    )

    @property
    def retention(self) -> Retention:
        return Retention(self.age_s, self.bytes_max)


@dataclass(frozen=True)
class DeadLetterSettings(LateRowSettings):
    """Where the rows go that a rule or a sink refuses."""

    path: str = setting(PathBelow(), "dead_letters", "Directory below the output directory.")
    batch_rows_max: int = setting(
        Integer(1, 10_000_000),
        100_000,
        "Letters of one micro-batch at most; further ones are counted only.",
        name="max_rows_per_batch",
    )


@dataclass(frozen=True)
class Pipeline:
    """Everything that one driver runs."""

    rules: Mapping[str, RuleJob]
    stream_sql: Mapping[str, StreamSqlJob]
    sources: Mapping[str, Source] = field(default_factory=dict)
    tables: Mapping[str, StaticTable] = field(default_factory=dict)
    schemas: tuple[SchemaSettings, ...] = ()
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    late: LateRowSettings = LateRowSettings()
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    files: tuple[Path, ...] = field(default=(), compare=False)

    @property
    def query_names(self) -> list[str]:
        return [name for name, rule in self.rules.items() if rule.sink is not None] + list(self.stream_sql)

    def job(self, name: str) -> Job:
        return self.stream_sql[name] if name in self.stream_sql else self.rules[name]

    def sink(self, name: str) -> Sink:
        sink = self.job(name).sink
        if sink is None:
            raise ValueError(f"the rule {name} has no sink, so it is no query of its own")
        return sink

    def view(self, name: str) -> View:
        return self.rules[name] if name in self.rules else self.sources[name]

    @property
    def side_tables(self) -> dict[str, tuple[str, Retention]]:
        """The tables beside those of sinks: path below the output directory, and how long they are kept."""
        letters, late = self.dead_letters, self.late
        return {"dead_letters": (letters.path, letters.retention), "late": (late.path, late.retention)}

    def parts(self, name: str) -> tuple[Any, ...]:
        """Everything that a query is made of: equal parts make equal queries."""
        job = self.job(name)
        views = [self.view(view) for view in job.views]
        behind = [self.sources[view.source] for view in views if isinstance(view, RuleJob) and view.source]
        tables = [self.tables[table] for table in job.tables] if isinstance(job, StreamSqlJob) else []
        places = (self.dead_letters.path, self.dead_letters.batch_rows_max, self.late.path)
        return (job, *views, *behind, *tables, self.schemas, *places)
