"""JSON payloads that do not have the types of a struct: the fields that do not fit become null, and are named.

Arrow's parser takes a payload as a whole or not at all. So `Repair` writes the text of such a payload again, with
null where a field has another type and with text where a STRING is given something else; Arrow then parses that. A
payload that Arrow takes as it is has nothing to repair, so that it means the same alone and among others.

Arrow's parser has no maps: `Repair` writes each as the list of its entries (`without_maps`).
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

_KEY: Final = "key"
_VALUE: Final = "value"
_INTEGERS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


class _Number(str):
    """A number as the payload has it, so that none of its digits are lost."""

    __slots__ = ()


class Repair:
    """What repairs payloads for one struct. Made on a worker for each column of payloads."""

    def __init__(self, kind: pa.StructType) -> None:
        self._write = _writer(kind, "")

    def repaired(self, payload: bytes) -> tuple[bytes, list[str]] | None:
        """The payload with null for what does not fit, and what that is; None if nothing is to be repaired.

        Raises:
            ValueError: It is not a JSON object.
        """
        found = _loads(payload)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise ValueError("it is not an object")
        changes = _Changes()
        text = self._write(found, changes)
        return (text.encode(), changes.faults) if changes.are_some else None


def object_of(texts: dict[str, str]) -> bytes:
    """A JSON object of the JSON texts of its fields."""
    return ("{{{}}}".format(",".join(f"{json.dumps(name)}:{text}" for name, text in texts.items()))).encode()


def fields_of(payload: bytes, kind: pa.StructType) -> dict[str, str]:
    """The JSON text of each field of a payload that is an object."""
    found = _loads(payload)
    if not isinstance(found, dict):
        return {}
    return {one.name: _json_text(found[one.name]) for one in kind if found.get(one.name) is not None}


def without_maps(kind: pa.DataType) -> pa.DataType:
    """A type with lists of entries in the place of maps; the type itself if it has none."""
    if pa.types.is_map(kind):
        return pa.list_(pa.struct([(_KEY, kind.key_type), (_VALUE, without_maps(kind.item_type))]))
    if pa.types.is_list(kind):
        inner = without_maps(kind.value_type)
        return kind if inner == kind.value_type else pa.list_(kind.value_field.with_type(inner))
    if pa.types.is_struct(kind):
        fields = [field.with_type(without_maps(field.type)) for field in kind]
        return kind if fields == list(kind) else pa.struct(fields)
    return kind


def with_maps(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a type `without_maps` as ones of the type."""
    if values.type == kind:
        return values
    nulls = values.is_null()
    if pa.types.is_struct(kind):
        columns = [with_maps(values.field(place), field.type) for place, field in enumerate(kind)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=nulls)
    if pa.types.is_list(kind):
        inner = with_maps(values.values, kind.value_type)
        return pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=nulls)
    keys, items = values.values.field(_KEY), with_maps(values.values.field(_VALUE), kind.item_type)
    return pa.MapArray.from_arrays(values.offsets, keys, items, type=kind, mask=nulls)


class _Changes:
    def __init__(self) -> None:
        self.faults: list[str] = []
        self.are_some = False


Write: TypeAlias = Callable[[object, _Changes], str]
"""Gives the JSON text of a value that has its type afterwards."""


def _writer(kind: pa.DataType, path: str) -> Write:
    if pa.types.is_string(kind):
        return _write_string
    if pa.types.is_struct(kind):
        prefix = f"{path}." if path else ""
        fields = [(one.name, f"{json.dumps(one.name)}:", _writer(one.type, prefix + one.name)) for one in kind]
        return _struct_writer(fields, kind, path)
    if pa.types.is_list(kind):
        item, wrong = _writer(kind.value_type, f"{path}[]"), _wrong(kind, path)

        def write_list(value: object, changes: _Changes) -> str:
            if value is None or not isinstance(value, list):
                return wrong(value, changes)
            return "[{}]".format(",".join([item(one, changes) for one in value]))

        return write_list
    if pa.types.is_map(kind):
        return _map_writer(_writer(kind.item_type, f"{path}.*"), _wrong(kind, path))
    fits, wrong = _fits(kind), _wrong(kind, path)
    return lambda value, changes: _json_text(value) if fits(value) else wrong(value, changes)


def _struct_writer(fields: Sequence[tuple[str, str, Write]], kind: pa.DataType, path: str) -> Write:
    wrong = _wrong(kind, path)

    def write_struct(value: object, changes: _Changes) -> str:
        if not isinstance(value, dict):
            return wrong(value, changes)
        return "{{{}}}".format(
            ",".join([head + write(value[name], changes) for name, head, write in fields if name in value])
        )

    return write_struct


def _map_writer(write: Write, wrong: Write) -> Write:
    def write_map(value: object, changes: _Changes) -> str:
        if not isinstance(value, dict):
            return wrong(value, changes)
        changes.are_some = True
        entries = (f'{{"{_KEY}":{json.dumps(name)},"{_VALUE}":{write(item, changes)}}}' for name, item in value.items())
        return f"[{','.join(entries)}]"

    return write_map


def _write_string(value: object, changes: _Changes) -> str:
    if value is None:
        return "null"
    if type(value) is not str:
        changes.are_some = True
        value = value if isinstance(value, str) else _json_text(value)
    return json.dumps(value)


def _wrong(kind: pa.DataType, path: str) -> Write:
    def write_null(value: object, changes: _Changes) -> str:
        if value is not None:
            changes.are_some = True
            changes.faults.append(f"field {path} is {_shown(value)}, which is no {kind_name(kind)}")
        return "null"

    return write_null


def _fits(kind: pa.DataType) -> Callable[[object], bool]:
    if pa.types.is_boolean(kind):
        return lambda value: isinstance(value, bool)
    if pa.types.is_integer(kind):
        bits = _INTEGERS[str(kind)]
        return lambda value: type(value) is _Number and _is_integer(value, bits)
    if pa.types.is_floating(kind):
        return lambda value: type(value) is _Number
    if pa.types.is_decimal(kind):
        return lambda value: isinstance(value, str)
    return lambda value: type(value) is str  # a time


def _is_integer(text: str, bits: int) -> bool:
    if not text.lstrip("-").isdigit() or len(text) > 20:
        return False
    return -(1 << bits) <= int(text) < 1 << bits


def kind_name(kind: pa.DataType) -> str:
    """The word for a type in reasons, as in Spark's DDL."""
    if pa.types.is_list(kind):
        return "array"
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_map(kind):
        return "map"
    names = {"bool": "BOOLEAN", "int8": "BYTE", "int16": "SHORT", "int32": "INT", "int64": "BIGINT"}
    others = {"float": "FLOAT", "double": "DOUBLE"}
    text = str(kind)
    return names.get(text) or others.get(text) or text.partition("[")[0].partition("(")[0].upper()


def _shown(value: object) -> str:
    text = _json_text(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _json_text(value: object) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{{{}}}".format(",".join(f"{json.dumps(name)}:{_json_text(item)}" for name, item in value.items()))
    if isinstance(value, list):
        return "[{}]".format(",".join(map(_json_text, value)))
    return json.dumps(value, ensure_ascii=False)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"it is not JSON: {name}")


_decode: Final = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant).decode


def _loads(payload: bytes) -> object:
    return _decode(payload.decode())
