"""Rows that a table of files cannot hold: a partition value that cannot name a directory, text that is not UTF-8.

They are looked for only when a batch has failed, so that others cost nothing; the batch is then written without them.
Without that, one value that a device has sent would keep the table from ever getting another row.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from functools import reduce
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import MicroBatch, Written
from heliograph.pipeline.sinks.spark.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.spark.template_columns import quoted

_REASON: Final = "heliograph_reason"
_CHUNK_ROWS: Final = 10_000
# Of the name of a file or directory, on every file system in use.
_NAME_BYTES_MAX: Final = 255
# What Spark writes as % and two digits in the name of a directory.
_ESCAPED_BY_SPARK: Final = r"""[\x01-\x1f\x7f"#%'*/:=?\\{\[\]^]"""


class Naming(Enum):
    """Whose rules make the name of a directory of a value."""

    SPARK = auto()
    DELTA = auto()
    ICEBERG = auto()


def write_without_rejected(
    rows: DataFrame, batch: MicroBatch, faults: Sequence[Column], write: Callable[[DataFrame], Written]
) -> Written:
    """Write a batch; if that fails because of rows with one of the faults, refuse these and write the others."""
    try:
        return write(rows)
    except (SinkError, PySparkException, Py4JJavaError, ValueError):
        if not faults:
            raise
        reason = F.coalesce(*faults)
        found = ArrowRows(rows.where(reason.isNotNull()), computed=[reason.alias(_REASON)])
        refused = 0
        for chunk in found.chunks(_CHUNK_ROWS):
            for index, text in enumerate(chunk.column(_REASON).to_pylist()):
                batch.refuse(found.row(chunk, index), text)
                refused += 1
        if not refused:
            raise
    written = write(rows.where(reason.isNull()))
    return Written(written.rows_total, {**written.figures, "refused": refused})


def faults_of_directories(schema: StructType, columns: Iterable[str], naming: Naming) -> list[Column]:
    """What speaks against values as names of directories, `column=value`."""
    faults = []
    for name, column in _texts(schema, columns):
        size = F.octet_length(_escaped(column, naming)) + (len(name.encode()) + 1)
        text = f"the value of {name} is too long for the name of a directory, as which partition_by needs it"
        faults.append(F.when(size > _NAME_BYTES_MAX, F.lit(text)))
        if naming is Naming.SPARK:
            text = f"the value of {name} has a zero character, which no name of a directory can have"
            faults.append(F.when(F.contains(column, F.lit("\0")), F.lit(text)))
    return faults


def faults_of_texts(schema: StructType, columns: Iterable[str]) -> list[Column]:
    """What speaks against values as texts, also within structures, arrays and maps: that they are not UTF-8."""
    wanted = set(columns)
    return [
        F.when(broken, F.lit(f"the value of {name} is not UTF-8"))
        for name, broken in _broken_texts(schema).items()
        if name in wanted
    ]


def with_valid_texts(rows: DataFrame) -> DataFrame:
    """The same rows, which Spark fails to compute where a text is not UTF-8."""
    broken = _broken_texts(rows.schema)
    columns = [_valid(name, broken[name]) if name in broken else F.col(quoted(name)) for name in rows.columns]
    return rows.select(*columns) if broken else rows


def _valid(name: str, broken: Column) -> Column:
    # Not by validate_utf8, which Spark evaluates while it plans where the texts are known by then.
    fault = F.raise_error(F.lit(f"the value of {name} is not UTF-8"))
    return F.when(broken, fault).otherwise(F.col(quoted(name))).alias(name)


def _escaped(column: Column, naming: Naming) -> Column:
    if naming is Naming.SPARK:
        return F.regexp_replace(column, _ESCAPED_BY_SPARK, "%00")
    # Java keeps an asterisk, escapes a tilde and makes a plus of a blank; Iceberg's library differs in the first two.
    escaped = F.replace(F.replace(F.url_encode(column), F.lit("*"), F.lit("%2A")), F.lit("%7E"), F.lit("~"))
    return F.replace(escaped, F.lit("+"), F.lit("%20")) if naming is Naming.DELTA else escaped


def _broken_texts(schema: StructType) -> dict[str, Column]:
    """For each column with texts, whether one of them is not UTF-8; null is as false."""
    return {
        field.name: _is_broken(F.col(quoted(field.name)), field.dataType)
        for field in schema
        if _has_texts(field.dataType)
    }


def _has_texts(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_texts(field.dataType) for field in kind)
    if isinstance(kind, MapType):
        return _has_texts(kind.keyType) or _has_texts(kind.valueType)
    return _has_texts(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, StringType)


def _is_broken(column: Column, kind: DataType) -> Column:
    if isinstance(kind, StructType):
        texts = (field for field in kind if _has_texts(field.dataType))
        return reduce(Column.__or__, (_is_broken(column.getField(field.name), field.dataType) for field in texts))
    if isinstance(kind, MapType):
        entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
        return _is_broken(F.map_entries(column), ArrayType(entry))
    if isinstance(kind, ArrayType):
        return F.exists(column, lambda element: _is_broken(element, kind.elementType))
    return ~F.is_valid_utf8(column)


def _texts(schema: StructType, columns: Iterable[str]) -> list[tuple[str, Column]]:
    known = {field.name for field in schema if isinstance(field.dataType, StringType)}
    return [(name, F.col(quoted(name))) for name in columns if name in known]
