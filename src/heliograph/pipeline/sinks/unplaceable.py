"""Rows that a table of files cannot hold: a partition value of which no directory can be made, text that is not UTF-8.

They are looked for only when a batch has failed, so that others cost nothing; the batch is then written without them.
Without that, one value that a device has sent would keep the table from ever getting another row.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StringType, StructType

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.interface import Batch, Written
from heliograph.pipeline.sinks.template import quoted

_REASON: Final = "heliograph_reason"
_CHUNK_ROWS: Final = 10_000
# Of the name of a file or directory, on every file system in use.
_NAME_BYTES_MAX: Final = 255
# What Spark writes as % and two digits in the name of a directory.
_ESCAPED_BY_SPARK: Final = r"""[\x01-\x1f\x7f"#%'*/:=?\\{\[\]^]"""


def write_without_unplaceable(
    rows: DataFrame, batch: Batch, faults: Sequence[Column], write: Callable[[DataFrame], Written]
) -> Written:
    """Write a batch; if that fails because of rows that the table cannot hold, refuse these and write the others.

    Args:
        rows: The rows.
        batch: Which batch it is.
        faults: What each row has against it, as Spark columns of text; null is nothing.
        write: Writes rows as this batch.
    """
    try:
        return write(rows)
    except (SinkError, PySparkException, Py4JJavaError, ValueError):
        if not faults:
            raise
        reason = F.coalesce(*faults)
        found = ArrowRows(rows.where(reason.isNotNull()), computed=[reason.alias(_REASON)])
        refused = 0
        for chunk in found.chunks(_CHUNK_ROWS):
            for index, told in enumerate(chunk.column(_REASON).to_pylist()):
                batch.refuse(found.row(chunk, index), told)
                refused += 1
        if not refused:
            raise
    written = write(rows.where(reason.isNull()))
    return Written(written.rows_total, {**written.figures, "refused": refused})


def faults_of_directories(schema: StructType, columns: Iterable[str], *, by_spark: bool) -> list[Column]:
    """What speaks against values as names of directories, `column=value`.

    Args:
        schema: The columns of the rows.
        columns: Those that part the table.
        by_spark: Whether Spark makes the names; others escape as in the query of a URL.
    """
    faults = []
    for name, column in _texts(schema, columns):
        escaped = F.regexp_replace(column, _ESCAPED_BY_SPARK, "%00") if by_spark else F.url_encode(column)
        size = F.octet_length(escaped) + (len(name.encode()) + 1)
        told = f"the value of {name} is too long for the name of a directory, as which partition_by needs it"
        faults.append(F.when(size > _NAME_BYTES_MAX, F.lit(told)))
        if by_spark:
            told = f"the value of {name} has a zero character, which no name of a directory can have"
            faults.append(F.when(F.contains(column, F.lit("\0")), F.lit(told)))
    return faults


def faults_of_texts(schema: StructType, columns: Iterable[str]) -> list[Column]:
    """What speaks against values as texts: that they are not UTF-8."""
    return [
        F.when(~F.is_valid_utf8(column), F.lit(f"the value of {name} is not UTF-8"))
        for name, column in _texts(schema, columns)
    ]


def with_valid_texts(rows: DataFrame) -> DataFrame:
    """The same rows, which Spark fails to compute where a text is not UTF-8."""
    texts = dict(_texts(rows.schema, rows.columns))
    columns = [_valid(name, texts[name]) if name in texts else F.col(quoted(name)) for name in rows.columns]
    return rows.select(*columns) if texts else rows


def _valid(name: str, column: Column) -> Column:
    # Not by validate_utf8, which Spark evaluates while it plans where the texts are known by then.
    fault = F.raise_error(F.lit(f"the value of {name} is not UTF-8"))
    return F.when(column.isNull() | F.is_valid_utf8(column), column).otherwise(fault).alias(name)


def _texts(schema: StructType, columns: Iterable[str]) -> list[tuple[str, Column]]:
    known = {field.name for field in schema if isinstance(field.dataType, StringType)}
    return [(name, F.col(quoted(name))) for name in columns if name in known]
