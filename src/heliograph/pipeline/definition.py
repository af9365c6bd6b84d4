"""What a pipeline consists of, as plain values: its rules, its jobs in Spark SQL, and their sinks.

`heliograph.pipeline.rulefile` makes these values from files, `heliograph.pipeline.queries` makes Spark queries of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.pipeline.sinks.interface import OutputMode, Sink


@dataclass(frozen=True)
class RuleJob:
    """A rule whose output rows go to a sink.

    Attributes:
        name: Name in the file; it names the query, its checkpoint and its view in Spark SQL.
        sql: The rule, in the rule language.
        columns: Spark types of output columns; the others have the type that the rule implies.
        sink: Where its rows go; None for a rule that only jobs in Spark SQL read.
        required: Columns without which a row does not go to the sink.
        origin: File and line, for messages.
    """

    name: str
    sql: str
    columns: Mapping[str, str]
    sink: Sink | None
    required: tuple[str, ...]
    origin: str


@dataclass(frozen=True)
class Watermark:
    """How late a row may come: the time column, and the delay in Spark's words (``2 hours``)."""

    column: str
    delay: str


@dataclass(frozen=True)
class StreamSqlJob:
    """A Spark SQL query over the rows of a rule, such as an aggregate over windows of time.

    Attributes:
        name: Name in the file; it names the query and its checkpoint.
        source: Name of the rule; the SQL knows its rows as a view of that name.
        sql: The query, in Spark SQL.
        mode: Which rows of the result each micro-batch brings.
        watermark: How late rows may come; None waits for ever and keeps all state.
        sink: Where the result goes.
        origin: File and line, for messages.
    """

    name: str
    source: str
    sql: str
    mode: OutputMode
    watermark: Watermark | None
    sink: Sink
    origin: str


@dataclass(frozen=True)
class Pipeline:
    """Everything that one driver runs."""

    rules: Mapping[str, RuleJob]
    stream_sql: Mapping[str, StreamSqlJob]

    @property
    def query_names(self) -> list[str]:
        """Names of the streaming queries, in the order of the files."""
        return [name for name, rule in self.rules.items() if rule.sink is not None] + list(self.stream_sql)
