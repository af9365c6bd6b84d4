"""Messages of Protobuf to maps of the language and back, by plans that are made once for each kind of message.

As EMQX has it: a field of proto3 that is not sent has its default; a nested message, an `optional` field, a member of
a `oneof`, an empty list and an empty map that are not sent are not there. Enum values are their names.
"""

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.values import UNDEFINED, Value, describe, string_of

Convert: TypeAlias = Callable[[Any], Value]
# A value and where it stands in the map, to what a message takes.
Prepare: TypeAlias = Callable[[Value, str], Any]

_NOT_FINITE: Final = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}
_LEVELS_MAX: Final = 100  # as the decoder has it
_ITEMS_MAX: Final = 50_000  # of one repeated field: an item can be two bytes, and becomes a map in microseconds

_IMPLICIT: Final = 0
_EXPLICIT: Final = 1
_LIST: Final = 2
TABLE: Final = 3


def table_entry(field: FieldDescriptor) -> Descriptor | None:
    """What an entry of a `map<...>` is made of; None for any other field."""
    kind = field.message_type
    return kind if field.is_repeated and kind is not None and kind.GetOptions().map_entry else None


class MessageDecoder:
    """Makes maps of messages of one kind, of which `made` has those so far, so that a kind may hold itself."""

    def __init__(self, descriptor: Descriptor, made: dict[str, "MessageDecoder"]) -> None:
        made[descriptor.full_name] = self
        self._steps: list[tuple[str, int, Convert | None]] = []
        for field in descriptor.fields:
            if field.containing_oneof is None or field.containing_oneof.name.startswith("_"):
                self._steps.append(_decoding_step(field, made))
        self._oneofs: list[tuple[str, dict[str, Convert | None]]] = [
            (oneof.name, {field.name: _converter(field, made) for field in oneof.fields})
            for oneof in descriptor.oneofs
            if not oneof.name.startswith("_")
        ]

    def decode(self, message: Message) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for name, presence, convert in self._steps:
            if presence == _EXPLICIT and not message.HasField(name):
                continue
            value = getattr(message, name)
            if presence >= _LIST:
                if not value:
                    continue
                if presence == _LIST:
                    if convert is not None and len(value) > _ITEMS_MAX:
                        raise SchemaError(f"{name} has {len(value):,} items; at most {_ITEMS_MAX:,} are decoded")
                    result[name] = list(value) if convert is None else [convert(item) for item in value]
                else:
                    assert convert is not None
                    result[name] = convert(value)
            else:
                result[name] = value if convert is None else convert(value)
        for oneof, members in self._oneofs:
            chosen = message.WhichOneof(oneof)
            if chosen is not None:
                value, convert = getattr(message, chosen), members[chosen]
                result[chosen] = value if convert is None else convert(value)
        return result


def _decoding_step(field: FieldDescriptor, made: dict[str, MessageDecoder]) -> tuple[str, int, Convert | None]:
    entry = table_entry(field)
    if entry is not None:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return field.name, TABLE, _table_converter(key, _converter(value, made))
    if field.is_repeated:
        return field.name, _LIST, _converter(field, made)
    return field.name, _EXPLICIT if field.has_presence else _IMPLICIT, _converter(field, made)


def _table_converter(key: FieldDescriptor, convert: Convert | None) -> Convert:
    key_text: Callable[[Any], str] = _boolean_word if key.type == FieldDescriptor.TYPE_BOOL else str

    def table(items: Any) -> Value:
        return {key_text(name): item if convert is None else convert(item) for name, item in items.items()}

    return table


def _boolean_word(value: bool) -> str:
    return "true" if value else "false"


def _converter(field: FieldDescriptor, made: dict[str, MessageDecoder]) -> Convert | None:
    if field.message_type is not None:
        kind = field.message_type
        decoder = made.get(kind.full_name) or MessageDecoder(kind, made)
        return decoder.decode
    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        return lambda number: names.get(number, number)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return string_of
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return _finite
    return None


def _finite(number: float) -> Value:
    if number - number == 0:
        return number
    return "nan" if number != number else "infinity" if number > 0 else "-infinity"


class MessageEncoder:
    def __init__(self, descriptor: Descriptor, made: dict[str, "MessageEncoder"]) -> None:
        made[descriptor.full_name] = self
        self._name = descriptor.name
        self._fields: dict[str, Callable[[Message, Value, str, int], None]] = {
            field.name: _storing(field, made) for field in descriptor.fields
        }
        self._oneofs = {
            field.name: oneof.name
            for oneof in descriptor.oneofs
            for field in oneof.fields
            if not oneof.name.startswith("_")
        }

    def fill(self, message: Message, value: Value, path: str, level: int = 0) -> None:
        """Set the fields of an empty message; `path` and `level` say where the map stands."""
        if not isinstance(value, dict):
            raise SchemaError(f"{_at(path)}a {self._name} must be a map, not {describe(value)}")
        if level > _LEVELS_MAX:
            raise SchemaError(f"it is nested deeper than {_LEVELS_MAX} levels")
        chosen: dict[str, str] = {}
        for name, item in value.items():
            if item is UNDEFINED:
                continue
            store = self._fields.get(name)
            if store is None:
                known = ", ".join(self._fields) or "none"
                raise SchemaError(f"{_at(path)}{self._name} has no field {name!r:.100}; there are: {known:.300}")
            oneof = self._oneofs.get(name)
            if oneof is not None and chosen.setdefault(oneof, name) != name:
                raise SchemaError(f"{_at(path)}{name} and {chosen[oneof]} exclude each other")
            store(message, item, f"{path}.{name}" if path else name, level)


def _at(path: str) -> str:
    return f"at {path}: " if path else ""


def _storing(field: FieldDescriptor, made: dict[str, MessageEncoder]) -> Callable[[Message, Value, str, int], None]:
    name = field.name
    entry = table_entry(field)
    if entry is not None:
        return _storing_table(name, entry, made)
    if field.message_type is not None:
        encoder = made.get(field.message_type.full_name) or MessageEncoder(field.message_type, made)
        return _storing_messages(name, encoder) if field.is_repeated else _storing_message(name, encoder)
    prepare = _preparer(field)
    if field.is_repeated:

        def store_list(message: Message, value: Value, path: str, _level: int) -> None:
            target = getattr(message, name)
            for position, item in enumerate(_array(value, path), 1):
                place = f"{path}[{position}]"
                _set(lambda item=item, place=place: target.append(prepare(item, place)), item, place)

        return store_list

    def store(message: Message, value: Value, path: str, _level: int) -> None:
        _set(lambda: setattr(message, name, prepare(value, path)), value, path)

    return store


def _storing_message(name: str, encoder: MessageEncoder) -> Callable[[Message, Value, str, int], None]:
    def store(message: Message, value: Value, path: str, level: int) -> None:
        inner = getattr(message, name)
        inner.SetInParent()
        encoder.fill(inner, value, path, level + 1)

    return store


def _storing_messages(name: str, encoder: MessageEncoder) -> Callable[[Message, Value, str, int], None]:
    def store(message: Message, value: Value, path: str, level: int) -> None:
        target = getattr(message, name)
        for position, item in enumerate(_array(value, path), 1):
            encoder.fill(target.add(), item, f"{path}[{position}]", level + 1)

    return store


def _storing_table(
    name: str, entry: Descriptor, made: dict[str, MessageEncoder]
) -> Callable[[Message, Value, str, int], None]:
    key_kind, kind = entry.fields_by_name["key"], entry.fields_by_name["value"]
    prepare_key = _key_preparer(key_kind)
    if kind.message_type is not None:
        encoder = made.get(kind.message_type.full_name) or MessageEncoder(kind.message_type, made)

        def store_messages(message: Message, value: Value, path: str, level: int) -> None:
            target = getattr(message, name)
            for key, item in _map(value, path).items():
                encoder.fill(target[prepare_key(key, path)], item, f"{path}.{key}", level + 1)

        return store_messages
    prepare = _preparer(kind)

    def store(message: Message, value: Value, path: str, _level: int) -> None:
        target = getattr(message, name)
        for key, item in _map(value, path).items():
            place = f"{path}.{key}"
            prepared_key, prepared = prepare_key(key, path), prepare(item, place)
            _set(lambda key=prepared_key, prepared=prepared: target.__setitem__(key, prepared), item, place)

    return store


def _set(assign: Callable[..., None], value: Value, path: str) -> None:
    try:
        assign()
    except (TypeError, ValueError, OverflowError):
        raise SchemaError(f"at {path}: {describe(value)} does not fit the field") from None


def _array(value: Value, path: str) -> list[Value]:
    if not isinstance(value, list):
        raise SchemaError(f"at {path}: it must be an array, not {describe(value)}")
    return value


def _map(value: Value, path: str) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise SchemaError(f"at {path}: it must be a map, not {describe(value)}")
    return value


def _key_preparer(field: FieldDescriptor) -> Callable[[str, str], Any]:
    if field.type == FieldDescriptor.TYPE_STRING:
        return lambda key, path: key
    if field.type == FieldDescriptor.TYPE_BOOL:
        words = {"true": True, "false": False}

        def boolean(key: str, path: str) -> Any:
            if key not in words:
                raise SchemaError(f"at {path}: the key {key!r:.100} must be true or false")
            return words[key]

        return boolean

    def integer(key: str, path: str) -> Any:
        if not key.removeprefix("-").isdecimal() or len(key) > 20:
            raise SchemaError(f"at {path}: the key {key!r:.100} must be an integer")
        return int(key)

    return integer


def _preparer(field: FieldDescriptor) -> Prepare:
    if field.enum_type is not None:
        return _enum_preparer({value.name: value.number for value in field.enum_type.values}, field.enum_type.name)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _prepare_bytes
    if field.type == FieldDescriptor.TYPE_STRING:
        return _prepare_text
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _prepare_boolean
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return _prepare_float
    return _prepare_integer


def _enum_preparer(numbers: dict[str, int], kind: str) -> Prepare:
    def prepare(value: Value, path: str) -> Any:
        if type(value) is int:
            return value
        if not isinstance(value, str) or value not in numbers:
            known = ", ".join(numbers)
            raise SchemaError(f"at {path}: {describe(value)} is no {kind}; there are: {known:.300}")
        return numbers[value]

    return prepare


def _prepare_bytes(value: Value, path: str) -> bytes:
    if not isinstance(value, str | bytes):
        raise SchemaError(f"at {path}: it must be a string, not {describe(value)}")
    return value.encode() if isinstance(value, str) else value


def _prepare_text(value: Value, path: str) -> str:
    if not isinstance(value, str):
        raise SchemaError(f"at {path}: it must be a string of valid UTF-8, not {describe(value)}")
    return value


def _prepare_boolean(value: Value, path: str) -> bool:
    if not isinstance(value, bool):
        raise SchemaError(f"at {path}: it must be a boolean, not {describe(value)}")
    return value


def _prepare_integer(value: Value, path: str) -> int:
    if type(value) is not int:
        raise SchemaError(f"at {path}: it must be an integer, not {describe(value)}")
    return value


def _prepare_float(value: Value, path: str) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise SchemaError(f"at {path}: it must be a number, not {describe(value)}")
