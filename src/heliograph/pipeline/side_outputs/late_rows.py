"""Late rows: those beyond the watermark, which Spark leaves out of a stateful query, kept in a table.

Spark counts what it drops and does not say which rows these are. They follow from what the checkpoint holds, though: a
micro-batch drops the rows whose event time (or whose window's end) is not after the watermark of the batch before. So
where a batch has dropped any, its messages are read again by its offsets, brought by the query's own plan to the
operator that drops, and compared with that watermark.

A row is kept as JSON with its schema beside it, so that it can be made again whatever became of the query since.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructField, StructType

from heliograph.pipeline.side_outputs.lineage import PlanNode, rows_at
from heliograph.pipeline.side_outputs.replayed_files import REPLAYED_AT
from heliograph.pipeline.sinks.file_format import TIMES_AS_TEXT

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def late_rows(
    session: SparkSession, rows: DataFrame, place: PlanNode, view: str, watermark_ms: int, batch: int
) -> DataFrame | None:
    """The late rows of one input of a query over the messages of a batch, by the watermark of the batch."""
    found = rows_at(session, rows, place)
    if found is None:
        return None
    arriving, column = found
    is_window = isinstance(arriving.schema.fields[column].dataType, StructType)
    names = [f"c{number}" for number in range(len(arriving.columns))]
    originals = list(_unique(arriving.columns))
    fields = zip(originals, arriving.schema.fields, strict=True)
    schema = StructType([StructField(original, field.dataType) for original, field in fields])
    numbered = arriving.toDF(*names)
    time = F.col(f"{names[column]}.end") if is_window else F.col(names[column])
    watermark = F.lit(_EPOCH + timedelta(milliseconds=watermark_ms)).cast("timestamp")
    values = [F.col(name).alias(original) for name, original in zip(names, originals, strict=True)]
    return numbered.where(time.cast("timestamp") <= watermark).select(
        F.lit(view).alias("view"),
        F.lit(batch).cast("bigint").alias("batch"),
        (F.col(f"{names[column]}.start") if is_window else time).cast("timestamp").alias("event_time"),
        watermark.alias("watermark"),
        F.to_json(F.struct(*values), TIMES_AS_TEXT).alias("row"),
        F.lit(schema.json()).alias("row_schema"),
        F.lit(None).cast("timestamp").alias(REPLAYED_AT),
    )


def rows_as_they_were(texts: DataFrame, row_schema: str) -> DataFrame:
    """Late rows made of what is kept of them."""
    schema = StructType.fromJson(json.loads(row_schema))
    # A row that does not fit its schema is our mistake: without FAILFAST it would go as nothing but nulls.
    parsed = F.from_json("row", schema, {**TIMES_AS_TEXT, "mode": "FAILFAST"})
    others = [name for name in texts.columns if name != "row"]
    return texts.select(*others, parsed.alias("row")).select(*others, "row.*")


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Names of columns; a repeated one gets a number, as in the two views of a join."""
    seen: set[str] = set()
    for name in names:
        unique, number = name, 1
        while unique.casefold() in seen:
            number += 1
            unique = f"{name}_{number}"
        seen.add(unique.casefold())
        yield unique
