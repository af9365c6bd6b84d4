"""The columns of stored messages as Spark sees them, and the bringing of record batches into exactly that form.

`storage.message_columns` declares them; here are only Spark's types.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from heliograph.pipeline.datasource.decoding import RAW, PayloadFormat
from heliograph.pipeline.datasource.spark_versions import IN_UTC
from heliograph.pipeline.errors import OptionError
from heliograph.storage.message_columns import COLUMNS

_TYPES: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "binary": BinaryType(),
    "binary(16)": BinaryType(),
    "tinyint": ByteType(),
    "int": IntegerType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "map<string, string>": MapType(StringType(), StringType()),
}
#: Each column may be null, as Spark has it of every source.
MESSAGE_SCHEMA: Final = StructType([StructField(column.name, _TYPES[column.type]) for column in COLUMNS])


#: The only column of a read that counts: of each partition, how many rows it has. `ColumnPruning.java` names it.
ROW_COUNT: Final = "$rows"
ROW_COUNT_SCHEMA: Final = StructType([StructField(ROW_COUNT, LongType())])


def columns_ddl(names: Sequence[str] | None, payload_format: PayloadFormat) -> str:
    """The named columns of stored messages and decoded payloads as Spark's DDL, in their order; None is all of them.

    As text, because Spark itself parses the types that a user gave for JSON.
    """
    types = {field.name: field.dataType.simpleString() for field in MESSAGE_SCHEMA.fields}
    types |= payload_format.columns_ddl()
    # As in Spark's own sources, it is there only where it is named.
    named = types | dict.fromkeys(payload_format.columns_on_demand, "string")
    _check_names(names or (), named)
    return ", ".join(f"{name} {named[name]}" for name in names or types)


def check_schema(schema: StructType, payload_format: PayloadFormat = RAW) -> None:
    """Check a schema that a user gave to a read: columns of messages or decoded payloads, each with its own type."""
    decoded = [*payload_format.columns_ddl(), *payload_format.columns_on_demand]
    _check_names(schema.fieldNames(), [*MESSAGE_SCHEMA.fieldNames(), *decoded])
    for field in schema.fields:
        if field.name in decoded:
            payload_format.check_type(field.name, field.dataType)
            continue
        expected = MESSAGE_SCHEMA[field.name].dataType
        if field.dataType != expected:
            raise OptionError("schema", f"{field.name} {field.dataType.simpleString()}", expected.simpleString())


def _check_names(names: Iterable[str], valid: Iterable[str]) -> None:
    for name in names:
        if name not in valid:
            raise OptionError("columns", name, f"some of {', '.join(valid)}")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's Arrow form of a schema; record batches given to Spark must have exactly this one."""
    return to_arrow_schema(schema, **IN_UTC)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring a record batch into a schema: its columns in order, and plain instead of dictionary encoded.

    Columns that have the type already are passed on without copying.
    """
    if not schema.names:
        return batch.select([])  # which keeps the number of rows
    columns = [_as_type(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
