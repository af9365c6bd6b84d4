"""Micro-batches as the driver hands them to a sink, and sinks read from text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from heliograph.hocon.document import parse_text
from heliograph.pipeline.files.section import FileSection
from heliograph.pipeline.sinks import MicroBatch, OutputMode, Sink, read_sink


@dataclass
class Batches:
    """The batches of one checkpoint; what the sink refuses is kept."""

    output: Path
    owner: str = "11111111-owner-1"
    backfill_of: str | None = None
    refused: list[tuple[dict[str, Any], str]] = field(default_factory=list)

    def number(self, number: int) -> MicroBatch:
        """One of them."""
        return MicroBatch("obs", self.owner, number, self.output, "127.0.0.1:1883", self._refuse, self.backfill_of)

    def _refuse(self, row: Mapping[str, Any], reason: str) -> None:
        self.refused.append((dict(row), reason))


def sink_of(text: str, mode: OutputMode = OutputMode.APPEND) -> Sink:
    """The sink of a section in a file."""
    return read_sink(FileSection(parse_text(text), "sink"), mode)


def station_rows(spark: SparkSession, *rows: tuple[str | None, int]) -> DataFrame:
    """Rows with the columns station and n."""
    return spark.createDataFrame(list(rows), "station string, n long")


#: A row with a value of every type that the sinks of tables have.
EVERY_TYPE = """
    select cast(1 as tinyint) t, cast(2 as smallint) sm, 3 i, 4L l, cast(1.5 as float) f, 2.5D d,
        cast('12.34' as decimal(10,2)) price, 'x' s, X'00ff' raw, true b, date'2026-01-02' day,
        timestamp'2026-01-02 03:04:05.123456' at, timestamp_ntz'2026-01-02 03:04:05.123456' local,
        array(1, 2) list, map('k', 'v') pairs, named_struct('q', 1, 'r', 'z') nested, cast(null as string) nothing
"""


def every_value() -> dict[str, Any]:
    """The same row in Python."""
    local = datetime(2026, 1, 2, 3, 4, 5, 123456)
    numbers = {"t": 1, "sm": 2, "i": 3, "l": 4, "f": 1.5, "d": 2.5, "price": Decimal("12.34")}
    others = {"s": "x", "raw": b"\x00\xff", "b": True, "nothing": None}
    times = {"day": local.date(), "at": local.replace(tzinfo=UTC), "local": local}
    return {**numbers, **others, **times, "list": [1, 2], "pairs": [("k", "v")], "nested": {"q": 1, "r": "z"}}
