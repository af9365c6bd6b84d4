"""What a pipeline file may say: its roots, sources, rules and jobs; `definition` has its tables and side tables.

`rulefile` makes the values of `definition` from these groups. What sinks say is in the modules of sinks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.hocon.values import Content, Node
from heliograph.pipeline.files.definition import Watermark
from heliograph.pipeline.side_outputs.fallbacks import NodeFallbacks
from heliograph.pipeline.sinks.interface import COLUMNS, OutputMode
from heliograph.settings.fields import list_setting, optional, optional_section, required_list, setting
from heliograph.settings.fields import required as needed
from heliograph.settings.kinds import Anything, Boolean, Integer, Kind, RefusedError, Text, Texts, TopicFilters, Words


class ViewNames(Kind[tuple[str, ...]]):
    expected = "the name of a rule or source, or a list of them"

    def convert(self, value: Content) -> tuple[str, ...]:
        names = [item.value for item in value] if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) and name for name in names):
            raise RefusedError
        return tuple(str(name) for name in names)


_VERSION: Final = Integer(1, 9_999)


@dataclass(frozen=True)
class Deduplication:
    columns: tuple[str, ...] = required_list(
        COLUMNS, "Columns by which rows that come twice within the watermark are known."
    )


@dataclass(frozen=True)
class SourceSettings:
    """A source in a pipeline file; a topic filter or a list of them, and options of the data source."""

    topics: tuple[str, ...] = needed(TopicFilters(), "Topic filters of the view.")
    watermark: Watermark | None = optional_section(Watermark, "How late a row of the view may come.")
    deduplicate: Deduplication | None = optional_section(
        Deduplication, "Which rows are left out, since they come twice; needs a watermark."
    )
    dead_letters: bool = setting(
        Boolean(),
        False,
        "Whether messages with a `decode_error` become dead letters, and no rows of the view; needs a `schema`.",
    )
    options: Mapping[str, str] = setting(
        Texts(), {}, "Options of the data source, by their names there.", is_secret=True
    )

    def __post_init__(self) -> None:
        check_deduplication(self.watermark, self.deduplicate)


def check_deduplication(watermark: Watermark | None, deduplicate: Deduplication | None) -> None:
    """Refuse a view whose rows would be remembered for ever."""
    if deduplicate is not None and watermark is None:
        raise RefusedError("needs a watermark beside it, which says for how long a row is remembered", "deduplicate")


@dataclass(frozen=True)
class Roots:
    """What a pipeline file holds; all of it is read by readers of its own."""

    sources: Node | None = optional(Anything(), "Stored messages as views.")
    tables: Node | None = optional(Anything(), "Static tables, for joins.")
    schemas: Node | None = optional(Anything(), "Schemas by name.")
    schema_registry: Node | None = optional(Anything(), "Schemas as a node's configuration has them.")
    sinks: Node | None = optional(Anything(), "Sinks that several rules or jobs may name.")
    rules: Node | None = optional(Anything(), "Rules by name.")
    stream_sql: Node | None = optional(Anything(), "Jobs in Spark SQL by name.")
    dead_letters: Node | None = optional(Anything(), "Where refused rows go.")
    outbound: Node | None = optional(Anything(), "Servers that sinks and schemas may connect to.")
    late: Node | None = optional(Anything(), "Where late rows go.")


@dataclass(frozen=True)
class RuleSettings:
    sql: str = needed(Text("a rule"), "The rule, in the rule language.")
    sink: Node | None = optional(Anything(), "Where its rows go: a sink, or the name of one.")
    columns: Mapping[str, str] = setting(Texts(), {}, "Spark types of output columns.")
    required: tuple[str, ...] = list_setting(COLUMNS, (), "Columns without which a row does not go to the sink.")
    source: str | None = optional(Text("the name of a source"), "Whose options hold; without, the driver's.")
    watermark: Watermark | None = optional_section(Watermark, "How late a row of the view may come.")
    deduplicate: Deduplication | None = optional_section(
        Deduplication, "Which rows are left out, since they come twice; needs a watermark."
    )
    version: int = setting(_VERSION, 1, "Number of the query's checkpoint; another one starts again.")
    alone: bool = setting(
        Boolean(),
        False,
        "Whether a mistake that Spark finds in it, such as a column that the sink names and there is not, keeps only "
        "this rule from running, and not the pipeline.",
    )
    fallbacks: NodeFallbacks | None = optional_section(
        NodeFallbacks, "Of the actions of a node: what gets refused rows in the place of the dead letters."
    )

    def __post_init__(self) -> None:
        check_deduplication(self.watermark, self.deduplicate)


@dataclass(frozen=True)
class StreamSqlSettings:
    sql: str = needed(Text("a query"), "The query, in Spark SQL.")
    sink: Node = needed(Anything(), "Where the result goes: a sink, or the name of one.")
    views: tuple[str, ...] = setting(ViewNames(), (), "The rules and sources that it reads.", name="from")
    mode: OutputMode = setting(
        Words({mode.value: mode for mode in OutputMode}), OutputMode.APPEND, "Which rows each micro-batch brings."
    )
    watermark: Watermark | None = optional_section(Watermark, "How late rows of its only view may come.")
    required: tuple[str, ...] = list_setting(COLUMNS, (), "Columns without which a row does not go to the sink.")
    version: int = setting(_VERSION, 1, "Number of the query's checkpoint; another one starts again.")


@dataclass(frozen=True)
class SinkColumns:
    """What the section of a sink says of the rows, whatever kind it is."""

    columns: Mapping[str, str] = setting(Texts(), {}, "Spark types of a rule's output columns.")
    required: tuple[str, ...] = list_setting(COLUMNS, (), "Columns without which a row does not go to the sink.")
