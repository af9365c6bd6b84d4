"""The types of output columns on Spark, and how a value of the language becomes a value of such a type.

A value that does not fit its column fails the rule for that message, as a failing function does: nothing is output for
it, and it is counted. Null and undefined become SQL NULL in every type. Within an array, a map or a structure a value
that does not fit is NULL by itself, so that the rest of a large document is not lost for it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any, Final, TypeAlias

import pyarrow as pa

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.conversion import to_boolean
from heliograph.rules.functions.time import timestamp_of_rfc3339
from heliograph.rules.json_text import encode_exactly, text_of
from heliograph.rules.output import ValueKind
from heliograph.rules.values import UNDEFINED, Number, Value, bytes_of, describe, number_of_text
from heliograph.settings.column_types import ARRAY, MAP, NESTED_TYPES, STRUCT, ColumnType, column_type

Convert: TypeAlias = Callable[[Value], Any]


@dataclass(frozen=True, slots=True)
class OutputType:
    """A column type; `convert` makes what the Arrow column holds of a value that is neither null nor undefined."""

    name: str
    arrow: pa.DataType
    convert: Convert


def _to_text(value: Value) -> str:
    if type(value) is str:
        return value
    text = text_of(value)
    if isinstance(text, bytes):
        raise EvaluationFault(f"{describe(value)} is not valid UTF-8; a column of type binary can hold it")
    return text


def _to_binary(value: Value) -> bytes:
    return bytes_of(text_of(value))


def _to_number(value: Value) -> Number:
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, str | bytes):
        return number_of_text(value)
    raise EvaluationFault(f"{describe(value)} is no number")


def _to_double(value: Value) -> float:
    if type(value) is float:
        return value
    try:
        return float(_to_number(value))
    except OverflowError:
        raise EvaluationFault("the integer is larger than a 64-bit float can be") from None


_FLOAT_MAX: Final = 3.4028235677973366e38
"""Half a step above the largest 32-bit float; what is below rounds to one."""


def _to_float(value: Value) -> float:
    number = _to_double(value)
    if abs(number) >= _FLOAT_MAX:
        raise EvaluationFault(f"{describe(value)} does not fit into a 32-bit float")
    return number


def _to_integer(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Value) -> int:
        number = _to_number(value)
        whole = int(number)
        if whole != number:
            raise EvaluationFault(f"{describe(value)} is no whole number; a column of type double can hold it")
        if not -limit <= whole < limit:
            raise EvaluationFault(f"{describe(value)} does not fit into {bits} bits")
        return whole

    return convert


def _to_timestamp(value: Value) -> int:
    """Microseconds since the epoch of an RFC 3339 text, or of an integer in milliseconds as the columns have it."""
    if isinstance(value, str | bytes):
        return timestamp_of_rfc3339(value, 6)
    if type(value) is int:
        return _to_integer(64)(value * 1000)  # type: ignore[no-any-return]  # Spark has no types here
    raise EvaluationFault(f"{describe(value)} is no time: neither an RFC 3339 text nor an integer of milliseconds")


_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def _to_date(value: Value) -> int:
    if isinstance(value, str) and len(value) == len("2026-01-31"):
        try:
            return date.fromisoformat(value).toordinal() - _EPOCH_DAY
        except ValueError:
            raise EvaluationFault(f"{describe(value)} is no date such as '2026-01-31'") from None
    return _to_timestamp(value) // 86_400_000_000


def _to_decimal(precision: int, scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Value) -> Decimal:
        number = _to_number(value)
        with localcontext(prec=precision):
            try:
                # repr, so that 0.1 becomes 0.1 and not the binary number next to it.
                return Decimal(repr(number)).quantize(unit, ROUND_HALF_UP)
            except InvalidOperation:
                raise EvaluationFault(f"{describe(value)} does not fit into decimal({precision}, {scale})") from None

    return convert


def _to_array(element: Convert) -> Convert:
    inner = _null_unless_fitting(element)

    def convert(value: Value) -> list[Any]:
        if not isinstance(value, list):
            raise EvaluationFault(f"{describe(value)} is no array")
        return [inner(one) for one in value]

    return convert


def _to_map(item: Convert) -> Convert:
    inner = _null_unless_fitting(item)

    def convert(value: Value) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise EvaluationFault(f"{describe(value)} is no map")
        return [(_to_text(name), inner(one)) for name, one in value.items()]

    return convert


def _to_struct(fields: Mapping[str, Convert]) -> Convert:
    inner = {name: _null_unless_fitting(convert) for name, convert in fields.items()}

    def convert(value: Value) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise EvaluationFault(f"{describe(value)} is no map, whose values a structure has")
        return {name: take(value.get(name)) for name, take in inner.items()}

    return convert


def _null_unless_fitting(convert: Convert) -> Convert:
    def converted(value: Value) -> Any:
        if value is None or value is UNDEFINED:
            return None
        try:
            return convert(value)
        except EvaluationFault:
            return None

    return converted


EXACT: Final = OutputType("string", pa.string(), encode_exactly)
"""Not a type for tables: JSON text that tells any value exactly."""

_TYPES: Final[Mapping[str, OutputType]] = {
    "string": OutputType("string", pa.string(), _to_text),
    "binary": OutputType("binary", pa.binary(), _to_binary),
    "boolean": OutputType("boolean", pa.bool_(), to_boolean),
    "tinyint": OutputType("tinyint", pa.int8(), _to_integer(8)),
    "smallint": OutputType("smallint", pa.int16(), _to_integer(16)),
    "int": OutputType("int", pa.int32(), _to_integer(32)),
    "bigint": OutputType("bigint", pa.int64(), _to_integer(64)),
    "float": OutputType("float", pa.float32(), _to_float),
    "double": OutputType("double", pa.float64(), _to_double),
    "timestamp": OutputType("timestamp", pa.timestamp("us", "UTC"), _to_timestamp),
    "date": OutputType("date", pa.date32(), _to_date),
}
_SYNONYMS: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
_DECIMAL: Final = re.compile(r"decimal\( ?([0-9]+) ?(?:, ?([0-9]+) ?)?\)")
_PRECISION_MAX: Final = 38

_TYPES_BY_KIND: Final[Mapping[ValueKind, str]] = {
    ValueKind.STRING: "string",
    ValueKind.BYTES: "binary",
    ValueKind.INTEGER: "bigint",
    ValueKind.NUMBER: "double",
    ValueKind.BOOLEAN: "boolean",
    ValueKind.UNKNOWN: "string",
}


def output_type(text: str) -> OutputType:
    """The type that a text such as `double` or `array<struct<id: string, wear: double>>` names.

    Raises:
        ValueError: It names none.
    """
    return _typed(column_type(text, lambda name: _scalar(name).name))


def _typed(kind: ColumnType) -> OutputType:
    if not kind.is_nested:
        return _scalar(kind.name)
    fields = {name: _typed(field) for name, field in kind.fields}
    if kind.name == STRUCT:
        arrow = pa.struct([(name, field.arrow) for name, field in fields.items()])
        return OutputType(str(kind), arrow, _to_struct({name: field.convert for name, field in fields.items()}))
    (inner,) = fields.values()
    if kind.name == MAP:
        return OutputType(str(kind), pa.map_(pa.string(), inner.arrow), _to_map(inner.convert))
    assert kind.name == ARRAY
    return OutputType(str(kind), pa.list_(inner.arrow), _to_array(inner.convert))


def _scalar(text: str) -> OutputType:
    name = " ".join(text.lower().split())
    name = _SYNONYMS.get(name, name)
    if name in _TYPES:
        return _TYPES[name]
    match = _DECIMAL.fullmatch(name)
    if match is not None:
        precision, scale = int(match[1]), int(match[2] or 0)
        if 0 < precision <= _PRECISION_MAX and scale <= precision:
            name = f"decimal({precision},{scale})"
            return OutputType(name, pa.decimal128(precision, scale), _to_decimal(precision, scale))
    scalars = f"{', '.join(_TYPES)}, decimal(P, S)"
    raise ValueError(f"{text!r} is no type of an output column; there are {scalars}, and of these {NESTED_TYPES}")


def inferred_type(kind: ValueKind) -> OutputType:
    return _TYPES[_TYPES_BY_KIND[kind]]
