"""Of several rows with one key in a micro-batch the last counts: those of a result that has one row for each key.

Aggregates bring each key once; a query that only selects (the newest value of each station) brings a key as often as
there were messages.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.sinks.template import quoted

_ROW: Final = "heliograph_row"
_NUMBER: Final = "heliograph_number"


def keys_of(table: pa.Table, key: Sequence[str]) -> Iterable[tuple[object, ...]]:
    return zip(*(table.column(name).to_pylist() for name in key), strict=True)


def last_of_each(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in their order; null equals null."""
    last = {row: index for index, row in enumerate(keys_of(table, key))}
    return table if len(last) == table.num_rows else table.take(pa.array(sorted(last.values()), pa.int64()))


def last_of_each_in_spark(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """The last row of each key, as Spark orders its partitions and the rows in them; null equals null."""
    columns = [F.col(quoted(name)) for name in rows.columns]
    numbered = rows.select(F.struct(*columns).alias(_ROW), F.monotonically_increasing_id().alias(_NUMBER))
    of_key = [F.col(f"{_ROW}.{quoted(name)}").alias(f"{_NUMBER}_{place}") for place, name in enumerate(key)]
    return numbered.groupBy(*of_key).agg(F.max_by(_ROW, _NUMBER).alias(_ROW)).select(f"{_ROW}.*")
