"""Avro payloads as typed columns of Spark.

As Spark's own `from_avro` has it, a record is a struct, an enum a string, and a union of null and one other type is
that type. Of other unions, int with long is long and float with double is double; the rest, and a type that holds
itself, is the JSON text of the value. Dates, timestamps and decimals are what they are called.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Any, Final, TypeAlias

import fastavro
import pyarrow as pa
from fastavro import _read_py

from heliograph.pipeline.datasource.json_columns import column_text
from heliograph.rules.schemas.avro import AvroSchema, AvroTree, is_recursive, parsed_for_columns
from heliograph.rules.schemas.interface import SchemaError

#: What makes the Arrow value of fastavro's; None where it is the same.
Convert: TypeAlias = Callable[[Any], Any] | None

_PRIMITIVES: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
}
_DECIMAL_DIGITS_MAX: Final = 38
_WIDER: Final = ({"int", "long"}, {"float", "double"})


class AvroColumns:
    """Decodes whole columns of payloads of one schema; any number of times."""

    def __init__(self, schema: AvroSchema) -> None:
        # See `AvroSchema`: only the interpreted reader has a limit to how deep a type may hold itself.
        self._read: Any = _read_py.schemaless_reader if is_recursive(schema.tree) else fastavro.schemaless_reader
        self._parsed = parsed_for_columns(schema.tree)
        self.type, self._convert = _Types().column(schema.tree, "")

    def decode(self, payloads: pa.Array) -> pa.Array:
        """The values of payloads, null for one that does not fit."""
        values = [None if data is None else self._decoded(data) for data in payloads.to_pylist()]
        try:
            return pa.array(values, self.type)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return pa.concat_arrays([self._alone(value) for value in values])

    def _alone(self, value: Any) -> pa.Array:
        """One value in an array, null where its type cannot hold it (a decimal of too many digits)."""
        try:
            return pa.array([value], self.type)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return pa.nulls(1, self.type)

    def _decoded(self, data: bytes) -> Any:
        stream = BytesIO(data)
        try:
            value = self._read(stream, self._parsed, None)
        except Exception:  # noqa: BLE001 - bytes that are no Avro fail in any way there is
            return None
        if stream.tell() != len(data):
            return None
        return value if self._convert is None else self._convert(value)


class _Types:
    """Finds the column type of each part of a schema."""

    def __init__(self) -> None:
        self._named: dict[str, AvroTree] = {}
        self._within: list[str] = []

    def column(self, tree: AvroTree, namespace: str) -> tuple[pa.DataType, Convert]:
        if isinstance(tree, list):
            return self._union(tree, namespace)
        if isinstance(tree, str):
            if tree in _PRIMITIVES:
                return _PRIMITIVES[tree], None
            return self._reference(tree, namespace)
        kind = tree["type"]
        if not isinstance(kind, str):
            return self.column(kind, namespace)
        if kind == "array":
            item, convert = self.column(tree["items"], namespace)
            return pa.list_(item), _each(convert)
        if kind == "map":
            item, convert = self.column(tree["values"], namespace)
            return pa.map_(pa.string(), item), _pairs(convert)
        if kind in ("record", "error"):
            return self._record(tree, namespace)
        return self._scalar(kind, tree, namespace)

    def _scalar(self, kind: str, tree: AvroTree, namespace: str) -> tuple[pa.DataType, Convert]:
        if kind in ("enum", "fixed"):
            self._named[_full_name(tree, namespace)] = tree
        if kind == "enum":
            return pa.string(), None
        logical = tree.get("logicalType")
        precision = tree.get("precision")
        if logical == "decimal" and kind in ("bytes", "fixed") and type(precision) is int:
            scale = tree.get("scale", 0)
            if 0 < precision <= _DECIMAL_DIGITS_MAX and 0 <= scale <= precision:
                return pa.decimal128(precision, scale), None
            return pa.string(), str
        if kind == "fixed":
            return pa.binary(), None
        if kind not in _PRIMITIVES:
            return self.column(kind, namespace)
        return _LOGICAL.get((kind, logical), _PRIMITIVES[kind]), None

    def _record(self, tree: AvroTree, namespace: str) -> tuple[pa.DataType, Convert]:
        name = _full_name(tree, namespace)
        self._named[name] = tree
        if name in self._within:
            return pa.string(), column_text
        self._within.append(name)
        own = name.rpartition(".")[0]
        columns = {field["name"]: self.column(_type_of(field), own) for field in tree.get("fields", ())}
        self._within.pop()
        if not columns:
            return pa.string(), column_text  # Spark's structs have fields
        converts = {field: convert for field, (_, convert) in columns.items() if convert is not None}
        return pa.struct([(field, kind) for field, (kind, _) in columns.items()]), _fields(converts)

    def _reference(self, name: str, namespace: str) -> tuple[pa.DataType, Convert]:
        for full_name in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            if full_name in self._named:
                return self.column(self._named[full_name], full_name.rpartition(".")[0])
        raise SchemaError(f"the Avro schema has no type {name!r}")

    def _union(self, branches: list[AvroTree], namespace: str) -> tuple[pa.DataType, Convert]:
        others = [branch for branch in branches if branch != "null"]
        if not others:
            return pa.null(), None
        # Every branch is looked at, since it may give a type its name.
        columns = [self.column(branch, namespace) for branch in others]
        if len(columns) == 1:
            kind, convert = columns[0]
            return kind, _unless_null(convert)
        names = {branch if isinstance(branch, str) else branch.get("type") for branch in others}
        for together in _WIDER:
            if names == together and all(isinstance(branch, str) for branch in others):
                return _PRIMITIVES[max(together, key=len) if "double" in together else "long"], None
        return pa.string(), column_text


def _type_of(field: AvroTree) -> AvroTree:
    """The type of a field, with a logical type that was written beside it."""
    kind = field["type"]
    if isinstance(kind, str) and "logicalType" in field:
        return {key: field[key] for key in ("type", "logicalType", "precision", "scale") if key in field}
    return kind


def _full_name(tree: AvroTree, namespace: str) -> str:
    name = str(tree["name"])
    if "." in name:
        return name
    own = tree.get("namespace", namespace)
    return f"{own}.{name}" if own else name


def _each(convert: Convert) -> Convert:
    return None if convert is None else lambda items: [convert(item) for item in items]


def _pairs(convert: Convert) -> Convert:
    if convert is None:
        return lambda table: list(table.items())
    return lambda table: [(key, convert(item)) for key, item in table.items()]


def _fields(converts: dict[str, Callable[[Any], Any]]) -> Convert:
    if not converts:
        return None

    def convert(record: dict[str, Any]) -> dict[str, Any]:
        for name, change in converts.items():
            record[name] = change(record[name])
        return record

    return convert


def _unless_null(convert: Convert) -> Convert:
    return None if convert is None else lambda value: None if value is None else convert(value)
