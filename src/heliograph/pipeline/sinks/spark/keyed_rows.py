"""Of several rows with one key the last counts, or the newest by some columns: as a DataFrame."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.sinks.spark.template_columns import quoted

_ROW: Final = "heliograph_row"
_NUMBER: Final = "heliograph_number"


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
