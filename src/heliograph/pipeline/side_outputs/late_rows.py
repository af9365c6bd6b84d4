"""Late rows: those beyond the watermark, which Spark leaves out of a stateful query, kept in a table.

Spark counts what it drops and does not say which rows these are. They follow from what the checkpoint holds, though: a
micro-batch drops the rows whose event time (or whose window's end) is not after the watermark of the batch before. So
where a batch has dropped any, its messages are read again by its offsets, brought by the query's own plan to the
operator that drops, and compared with that watermark.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructType

from heliograph.pipeline.side_outputs.lineage import PlanNode, rows_at

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class BatchLog:
    """What Spark's checkpoint says of one micro-batch: the offsets it ends at, and the watermark."""

    offsets: tuple[dict[str, Any] | None, ...]
    watermark_ms: int


def read_batch_log(checkpoint: Path, batch: int) -> BatchLog | None:
    """The log of one batch; None where it is not kept any more, or never was."""
    try:
        version, metadata, *offsets = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ValueError):
        return None
    if version != "v1":
        raise ValueError(f"the offsets of batch {batch} in {checkpoint} are of the unknown version {version}")
    places = tuple(None if line == "-" else json.loads(line) for line in offsets)
    return BatchLog(places, json.loads(metadata)["batchWatermarkMs"])


def late_rows(
    session: SparkSession, rows: DataFrame, place: PlanNode, view: str, watermark_ms: int, batch: int
) -> DataFrame | None:
    """The late rows of one input of a query.

    Args:
        session: The session of `rows`.
        rows: The query over the messages of the batch, as a table.
        place: Where Spark drops.
        view: The view that the input belongs to.
        watermark_ms: The watermark by which the batch dropped, in milliseconds since the epoch.
        batch: Number of the batch.
    """
    found = rows_at(session, rows, place)
    if found is None:
        return None
    arriving, column = found
    is_window = isinstance(arriving.schema.fields[column].dataType, StructType)
    names = [f"c{number}" for number in range(len(arriving.columns))]
    originals = arriving.columns
    numbered = arriving.toDF(*names)
    time = F.col(f"{names[column]}.end") if is_window else F.col(names[column])
    watermark = F.lit(_EPOCH + timedelta(milliseconds=watermark_ms)).cast("timestamp")
    told = [F.col(name).alias(original) for name, original in zip(names, originals, strict=True)]
    return numbered.where(time.cast("timestamp") <= watermark).select(
        F.lit(view).alias("view"),
        F.lit(batch).cast("bigint").alias("batch"),
        (F.col(f"{names[column]}.start") if is_window else time).cast("timestamp").alias("event_time"),
        watermark.alias("watermark"),
        F.to_json(F.struct(*told)).alias("row"),
    )
