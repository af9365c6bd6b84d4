"""Avro schemas: one value in Avro's binary encoding, without a header, to values of the language and back.

Logical types stay what they are made of, as EMQX has it: a time is an integer, a UUID a text. The exception is
`decimal`, which becomes the text of the number: its bytes mean nothing to a reader. What a union holds stands for
itself; encoding takes the first branch that fits.
"""

import json
import math
from decimal import Decimal, InvalidOperation, localcontext
from io import BytesIO
from typing import Any, Final, TypeAlias, cast

import fastavro
from fastavro import _read_py, _validation_py, _write_py
from fastavro._validate_common import ValidationErrorData
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException
from fastavro.validation import ValidationError, validate
from fastavro.write import LOGICAL_WRITERS

from heliograph.rules.schemas.interface import SchemaError, fault_of
from heliograph.rules.schemas.settings import AVRO, SchemaSourceError
from heliograph.rules.values import Value, describe, string_of

# What a schema's JSON says, and what fastavro makes of it.
AvroTree: TypeAlias = Any

# Logical types of our own, with which fastavro makes values of the language while it reads.
_STRING: Final = "heliograph-string"
_FLOAT: Final = "heliograph-float"
_DECIMAL: Final = "heliograph-decimal"

_NOT_FINITE: Final = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}
_PROBLEM_CHARACTERS: Final = 300
_DECIMAL_DIGITS_MAX: Final = 1000


class AvroSchema:
    kind = AVRO
    may_block = False

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        try:
            self.tree = _tree(source)
            self._schema = _parsed(marked(self.tree))
            _refuse_empty_items(self.tree)
            # A type that holds itself nests as deep as its bytes say. The compiled reader would leave the stack of the
            # process on that way; the interpreted one has a limit.
            recursive = is_recursive(self.tree)
        except RecursionError:
            raise SchemaSourceError("the schema is nested too deeply") from None
        self._read: Any = _read_py.schemaless_reader if recursive else fastavro.schemaless_reader
        self._write: Any = _write_py.schemaless_writer if recursive else fastavro.schemaless_writer
        self._validate: Any = _validation_py.validate if recursive else validate

    def decode(self, data: bytes, message_type: str | None = None) -> Value:
        stream = BytesIO(data)
        try:
            value: Value = self._read(stream, self._schema, None)
        except EOFError:
            raise SchemaError("these are not bytes of the Avro schema: they end too early") from None
        except RecursionError:
            raise SchemaError("the value is nested too deeply") from None
        except Exception as error:  # noqa: BLE001 - bytes that are no Avro fail in any way there is
            raise SchemaError(f"these are not bytes of the Avro schema: {_shortened(error)}") from None
        behind = len(data) - stream.tell()
        if behind:
            raise SchemaError(f"there are {behind} bytes behind the value of the Avro schema")
        return value

    def encode(self, value: Value, message_type: str | None = None) -> bytes:
        stream = BytesIO()
        try:
            self._validate(value, self._schema)
            self._write(stream, self._schema, value)
        except ValidationError as error:
            raise SchemaError(f"the value does not fit the Avro schema: {_unfit(error)}") from None
        except RecursionError:
            raise SchemaError("the value is nested too deeply") from None
        except (ValueError, TypeError, KeyError, OverflowError, IndexError, AttributeError) as error:
            raise SchemaError(f"the value does not fit the Avro schema: {_shortened(error)}") from None
        return stream.getvalue()

    def check(self, data: Value, message_type: str | None = None) -> str | None:
        return fault_of(data, self.decode, self.encode)

    def __repr__(self) -> str:
        return f"AvroSchema({self.name})"


def _tree(source: str) -> AvroTree:
    try:
        return json.loads(source)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SchemaSourceError(f"not valid JSON: {error}") from None


def _parsed(tree: AvroTree) -> AvroTree:
    try:
        return fastavro.parse_schema(tree)
    except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"it has no {error}" if type(error) is KeyError else str(error)
        raise SchemaSourceError(f"not an Avro schema: {problem or type(error).__name__}") from None


def parsed_for_columns(tree: AvroTree) -> AvroTree:
    """The schema as fastavro reads it into typed columns: times, dates and decimals are what they are called."""
    return _parsed(marked(tree, _KEPT_IN_COLUMNS))


_KEPT_IN_COLUMNS: Final = frozenset({"decimal", "date", "timestamp-millis", "timestamp-micros"})


def marked(tree: AvroTree, kept: frozenset[str] | None = None) -> AvroTree:
    """The schema with logical types of our own where the language lacks its values, unless some are `kept`."""
    if isinstance(tree, list):
        return [marked(one, kept) for one in tree]
    if isinstance(tree, str):
        own = None if kept is not None else _own_type(tree, {})
        return tree if own is None else {"type": tree, "logicalType": own}
    if not isinstance(tree, dict):
        return tree
    result = {key: one for key, one in tree.items() if key != "logicalType"}
    kind = tree.get("type")
    if kept is not None and tree.get("logicalType") in kept:
        result["logicalType"] = tree["logicalType"]
    if kept is None and isinstance(kind, str) and (own := _own_type(kind, tree)) is not None:
        result["logicalType"] = own
    elif isinstance(kind, dict | list):
        result["type"] = marked(kind, kept)
    for key in ("items", "values"):
        if key in tree:
            result[key] = marked(tree[key], kept)
    if isinstance(tree.get("fields"), list):
        result["fields"] = [_marked_field(one, kept) for one in tree["fields"]]
    return result


def _marked_field(field: AvroTree, kept: frozenset[str] | None) -> AvroTree:
    if not isinstance(field, dict) or "type" not in field:
        return field
    # A logical type of a field, where its type is a name, counts as that of the type: many schemas are written so.
    kind, logical = field["type"], field.get("logicalType")
    if isinstance(kind, str) and logical is not None:
        kind = {key: field[key] for key in ("type", "logicalType", "precision", "scale") if key in field}
    rest = {key: one for key, one in field.items() if key not in ("logicalType", "precision", "scale")}
    return rest | {"type": marked(kind, kept)}


def _own_type(kind: str, tree: dict[str, Any]) -> str | None:
    if kind in ("float", "double"):
        return _FLOAT
    if kind not in ("bytes", "fixed"):
        return None
    precision = tree.get("precision")
    if tree.get("logicalType") == "decimal" and type(precision) is int and 0 < precision <= _DECIMAL_DIGITS_MAX:
        return _DECIMAL
    return _STRING


def _read_string(data: bytes, _writer: object = None, _reader: object = None) -> str | bytes:
    return string_of(data)


def _write_string(value: object, _schema: object) -> object:
    return value.encode() if isinstance(value, str) else value


def _read_float(number: float, _writer: object = None, _reader: object = None) -> float | str:
    if number - number == 0:
        return number
    return "nan" if number != number else "infinity" if number > 0 else "-infinity"


def _write_float(value: object, _schema: object) -> object:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _read_decimal(data: bytes, writer: dict[str, Any], _reader: object = None) -> str:
    with localcontext(prec=_DECIMAL_DIGITS_MAX * 3):
        number = Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-int(writer.get("scale", 0)))
    return f"{number:f}"


def _write_decimal(value: object, schema: dict[str, Any]) -> object:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return value
    scale, precision = int(schema.get("scale", 0)), int(schema["precision"])
    try:
        with localcontext(prec=_DECIMAL_DIGITS_MAX * 3):
            scaled = Decimal(str(value)).scaleb(scale)
    except InvalidOperation:
        raise ValueError(f"{describe(value)} is no decimal number") from None
    if not scaled.is_finite() or scaled != scaled.to_integral_value():
        raise ValueError(f"{describe(value)} is no number with at most {scale} decimals")
    if len(scaled.as_tuple().digits) > precision:
        raise ValueError(f"{describe(value)} has more than {precision} digits")
    number = int(scaled)
    size = schema.get("size") or (number.bit_length() + 8) // 8
    try:
        return number.to_bytes(size, "big", signed=True)
    except OverflowError:
        raise ValueError(f"{describe(value)} does not fit into {size} bytes") from None


for _kind, _own, _reads, _writes in (
    ("bytes", _STRING, _read_string, _write_string),
    ("fixed", _STRING, _read_string, _write_string),
    ("float", _FLOAT, _read_float, _write_float),
    ("double", _FLOAT, _read_float, _write_float),
    ("bytes", _DECIMAL, _read_decimal, _write_decimal),
    ("fixed", _DECIMAL, _read_decimal, _write_decimal),
):
    LOGICAL_READERS[f"{_kind}-{_own}"] = cast(Any, _reads)
    LOGICAL_WRITERS[f"{_kind}-{_own}"] = cast(Any, _writes)


def is_recursive(tree: AvroTree, within: tuple[str, ...] = ()) -> bool:
    """Whether a type of the schema holds itself."""
    if isinstance(tree, str):
        return tree.rpartition(".")[2] in within
    if isinstance(tree, list):
        return any(is_recursive(one, within) for one in tree)
    if not isinstance(tree, dict):
        return False
    # Names without their namespaces: two types of one name count as one, which costs speed and nothing else.
    names = (*within, str(tree["name"]).rpartition(".")[2]) if "name" in tree and "fields" in tree else within
    fields = tree.get("fields")
    inner = [field.get("type") for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    return any(is_recursive(one, names) for one in (*inner, tree.get("type"), tree.get("items"), tree.get("values")))


def _refuse_empty_items(tree: AvroTree) -> None:
    """Refuse arrays whose elements take no bytes: of them a few bytes can claim any number."""
    if isinstance(tree, list):
        for one in tree:
            _refuse_empty_items(one)
    if not isinstance(tree, dict):
        return
    if tree.get("type") == "array" and _is_empty(tree.get("items")):
        raise SchemaSourceError("not an Avro schema that can be used: the items of an array must take bytes")
    for key in ("type", "items", "values"):
        _refuse_empty_items(tree.get(key))
    for field in tree.get("fields") or ():
        _refuse_empty_items(field)


def _is_empty(tree: AvroTree) -> bool:
    if isinstance(tree, dict):
        kind = tree.get("type")
        if kind in ("record", "error"):
            return all(_is_empty(field.get("type")) for field in tree.get("fields") or ())
        return tree.get("size") == 0 if kind == "fixed" else _is_empty(kind)
    return bool(tree == "null")


def _unfit(error: ValidationError) -> str:
    first = next(iter(error.errors), None)
    if not isinstance(first, ValidationErrorData):
        return _shortened(error)
    kind = first.schema.get("type") if isinstance(first.schema, dict) else first.schema
    at = f"at {first.field}: " if first.field else ""
    wanted = f"is no {kind}" if len(error.errors) == 1 else "fits no branch of its union"
    return f"{at}{describe(first.datum)} {wanted}"


def _shortened(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _PROBLEM_CHARACTERS else text[: _PROBLEM_CHARACTERS - 3] + "..."
