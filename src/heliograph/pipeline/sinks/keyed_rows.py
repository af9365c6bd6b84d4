"""Of several rows with one key the last counts, or the newest by some columns.

Aggregates bring each key once; a query that only selects (the newest value of each station) brings a key as often as
there were messages.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructType

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.arrow_rows import is_complex
from heliograph.pipeline.sinks.template import check_columns, quoted

_ROW: Final = "heliograph_row"
_NUMBER: Final = "heliograph_number"


def keys_of(table: pa.Table, key: Sequence[str]) -> Iterable[tuple[object, ...]]:
    return zip(*(table.column(name).to_pylist() for name in key), strict=True)


def last_of_each(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in their order; null equals null."""
    last = {row: index for index, row in enumerate(keys_of(table, key))}
    return table if len(last) == table.num_rows else table.take(pa.array(sorted(last.values()), pa.int64()))


def last_of_each_in_spark(rows: DataFrame, key: Sequence[str], newest_by: Sequence[str] = ()) -> DataFrame:
    """The last row of each key, as Spark orders its partitions and the rows in them; null equals null.

    Args:
        newest_by: Of rows that differ here, the one with the largest values counts; null is before all values.
    """
    columns = [F.col(quoted(name)) for name in rows.columns]
    numbered = rows.select(F.struct(*columns).alias(_ROW), F.monotonically_increasing_id().alias(_NUMBER))
    of_key = [F.col(f"{_ROW}.{quoted(name)}").alias(f"{_NUMBER}_{place}") for place, name in enumerate(key)]
    order = F.struct(*(F.col(f"{_ROW}.{quoted(name)}") for name in newest_by), F.col(_NUMBER))
    return numbered.groupBy(*of_key).agg(F.max_by(_ROW, order).alias(_ROW)).select(f"{_ROW}.*")


def newer_condition(
    newest_by: Sequence[str], new: Callable[[str], str], held: Callable[[str], str | None], same: str
) -> str:
    """SQL that is true where a new row is not older than the one that the table holds; null is before all values.

    Args:
        new: The SQL of a column of the new row.
        held: That of the row in the table; None for a column that the table lacks, which is null in all its rows.
        same: The operator for which null equals null.
    """
    condition = "TRUE"
    for name in reversed(newest_by):
        mine, other = new(name), held(name)
        if other is None:
            condition = f"{mine} IS NOT NULL OR ({condition})"
            continue
        first = f"{mine} > {other} OR ({mine} IS NOT NULL AND {other} IS NULL)"
        condition = f"{first} OR (({mine} {same} {other}) AND ({condition}))"
    return condition


def check_newest_columns(newest_by: Sequence[str], schema: StructType, where: str) -> None:
    """Refuse rows that lack a column by which they are newer, or have one of which no value is after another.

    Raises:
        SinkError: With the column, and what there is.
    """
    check_columns(newest_by, schema, where)
    for name in newest_by:
        if is_complex(schema[name].dataType):
            kind = schema[name].dataType.simpleString()
            raise SinkError(
                f"{where} names {name!r}, which is {kind}: it takes numbers, times and texts, which have an order"
            )
