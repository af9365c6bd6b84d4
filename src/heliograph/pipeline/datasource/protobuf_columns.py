"""Protobuf payloads as typed columns of Spark, made column by column: that takes a third of what rows of maps take.

A message is a struct, a list an array, a `map<...>` a map, an enum the name of its value. `uint32` is bigint and
`uint64` decimal(20,0), so that every number fits. A field of proto3 that was not sent has its default; what can be
missing (a nested message, an `optional` field, a member of a `oneof`) is null then. A message that holds itself is the
JSON text of its inner ones.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from heliograph.pipeline.datasource.json_columns import column_text
from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.schemas.protobuf import MessageType
from heliograph.rules.schemas.protobuf_values import MessageDecoder, table_entry

_Kind: Final = FieldDescriptor
_SCALARS: Final = {
    _Kind.TYPE_DOUBLE: pa.float64(),
    _Kind.TYPE_FLOAT: pa.float32(),
    _Kind.TYPE_INT32: pa.int32(),
    _Kind.TYPE_SINT32: pa.int32(),
    _Kind.TYPE_SFIXED32: pa.int32(),
    _Kind.TYPE_INT64: pa.int64(),
    _Kind.TYPE_SINT64: pa.int64(),
    _Kind.TYPE_SFIXED64: pa.int64(),
    _Kind.TYPE_UINT32: pa.int64(),
    _Kind.TYPE_FIXED32: pa.int64(),
    _Kind.TYPE_UINT64: pa.decimal128(20, 0),
    _Kind.TYPE_FIXED64: pa.decimal128(20, 0),
    _Kind.TYPE_BOOL: pa.bool_(),
    _Kind.TYPE_STRING: pa.string(),
    _Kind.TYPE_BYTES: pa.binary(),
}


class _Values:
    """The Arrow column of the values of one field, without lists and presence."""

    def __init__(self, kind: pa.DataType, column: Callable[[Sequence[Any]], pa.Array]) -> None:
        self.type = kind
        self.column = column


class ProtobufColumns:
    """Decodes whole columns of payloads of one kind of message; any number of times."""

    def __init__(self, message: MessageType) -> None:
        self._parse = message.parse
        values = _message_values(message.descriptor, ())
        self.type = values.type
        self._column = values.column

    def decode(self, payloads: pa.Array) -> pa.Array:
        """The values of payloads, null for one that does not fit."""
        return self._column([None if data is None else self._parsed(data) for data in payloads.to_pylist()])

    def _parsed(self, data: bytes) -> Message | None:
        try:
            return self._parse(data)
        except SchemaError:
            return None


def _message_values(descriptor: Descriptor, within: tuple[str, ...]) -> _Values:
    if descriptor.full_name in within or not descriptor.fields:
        return _json_values(descriptor)
    inner = (*within, descriptor.full_name)
    fields = [(field.name, *_field_column(field, inner)) for field in descriptor.fields]
    kind = pa.struct([(name, field_type) for name, field_type, _ in fields])

    def column(messages: Sequence[Message | None]) -> pa.Array:
        there = [message for message in messages if message is not None]
        present = pa.StructArray.from_arrays([make(there) for _, _, make in fields], fields=list(kind))
        return present if len(there) == len(messages) else _spread(present, messages)

    return _Values(kind, column)


def _spread(present: pa.Array, messages: Sequence[Message | None]) -> pa.Array:
    """The values of the messages in their places, null where a message is missing."""
    positions: list[int | None] = []
    count = 0
    for message in messages:
        positions.append(None if message is None else count)
        count += message is not None
    return present.take(pa.array(positions, pa.int64()))


def _json_values(descriptor: Descriptor) -> _Values:
    decode = MessageDecoder(descriptor, {}).decode
    return _Values(
        pa.string(),
        lambda messages: pa.array([None if one is None else column_text(decode(one)) for one in messages], pa.string()),
    )


def _scalar_values(field: FieldDescriptor) -> _Values:
    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}

        def column(numbers: Sequence[int | None]) -> pa.Array:
            texts = [None if number is None else names.get(number, str(number)) for number in numbers]
            return pa.array(texts, pa.string())

        return _Values(pa.string(), column)
    kind = _SCALARS[field.type]
    return _Values(kind, lambda values: pa.array(values, kind))


def _values(field: FieldDescriptor, within: tuple[str, ...]) -> _Values:
    return _scalar_values(field) if field.message_type is None else _message_values(field.message_type, within)


def _field_column(
    field: FieldDescriptor, within: tuple[str, ...]
) -> tuple[pa.DataType, Callable[[Sequence[Message]], pa.Array]]:
    name = field.name
    entry = table_entry(field)
    if entry is not None:
        return _table_column(name, entry, within)
    values = _values(field, within)
    if field.is_repeated:
        return pa.list_(values.type), _list_column(name, values)
    if field.has_presence:

        def optional(messages: Sequence[Message]) -> pa.Array:
            return values.column([getattr(one, name) if one.HasField(name) else None for one in messages])

        return values.type, optional
    return values.type, lambda messages: values.column([getattr(one, name) for one in messages])


def _list_column(name: str, values: _Values) -> Callable[[Sequence[Message]], pa.Array]:
    def column(messages: Sequence[Message]) -> pa.Array:
        offsets, items = [0], []
        for one in messages:
            items.extend(getattr(one, name))
            offsets.append(len(items))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.column(items))

    return column


def _table_column(
    name: str, entry: Descriptor, within: tuple[str, ...]
) -> tuple[pa.DataType, Callable[[Sequence[Message]], pa.Array]]:
    keys, values = _scalar_values(entry.fields_by_name["key"]), _values(entry.fields_by_name["value"], within)

    def column(messages: Sequence[Message]) -> pa.Array:
        offsets, names, items = [0], [], []
        for one in messages:
            table = getattr(one, name)
            names.extend(table.keys())
            items.extend(table.values())
            offsets.append(len(names))
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys.column(names), values.column(items))

    return pa.map_(keys.type, values.type), column
