"""Functions of maps and arrays, and the choice among values that may be undefined."""

from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import utf8
from heliograph.rules.json_text import decode_json, text_of
from heliograph.rules.paths import put, read_key
from heliograph.rules.tree import Key
from heliograph.rules.values import UNDEFINED, Value, compact_text, describe, equal_exactly

MAPS: Final = Family("Maps")

_LEVELS_MAX: Final = 500  # of a path that a message may have brought; half of what JSON text can have


def _map(value: Value) -> dict[str, Value]:
    """A map, or the map that a JSON text holds."""
    decoded = value
    if isinstance(value, str | bytes):
        try:
            decoded = decode_json(value)
        except EvaluationFault:
            decoded = UNDEFINED
    if not isinstance(decoded, dict):
        raise EvaluationFault(f"{describe(value)} is neither a map nor the JSON text of one")
    return decoded


@MAPS.function("V value", "M", name="map")
def to_map(value: Value) -> Value:
    """A map itself, or the map that a JSON text holds."""
    return _map(value)


@MAPS.function("", "M")
def map_new() -> Value:
    """An empty map."""
    return {}


@MAPS.function("S path, V map[, V default]", "V")
def map_get(path: str | bytes, value: Value, default: Value = UNDEFINED) -> Value:
    """What lies at a path of names joined by dots, in a map or the JSON text of one, or else the default."""
    if isinstance(path, bytes):
        return default
    for name in path.split("."):
        value = read_key(value, name)
    return default if value is UNDEFINED else value


@MAPS.function("V key, V map[, V default]", "V")
def mget(key: Value, value: Value, default: Value = UNDEFINED) -> Value:
    """The value of one key, in which a dot is a dot, or what an array of keys leads to, or else the default."""
    names = key if isinstance(key, list) else [key]
    found: Value = _map(value)
    for name in names:
        found = found.get(name, UNDEFINED) if isinstance(found, dict) and isinstance(name, str) else UNDEFINED
    return default if found is UNDEFINED else found


@MAPS.function("S path, V value, V map", "M")
def map_put(path: str | bytes, value: Value, target: Value) -> Value:
    """The map with a value at a path of names joined by dots; what is no map is replaced by one."""
    names = utf8(path).split(".", _LEVELS_MAX)
    if len(names) > _LEVELS_MAX:
        raise EvaluationFault(f"the path has more than {_LEVELS_MAX} names")
    steps = [Key(name) for name in names]
    return put(target if isinstance(target, dict) else {}, steps, value, lambda name: UNDEFINED)


@MAPS.function("S key, V value, V map", "M")
def mput(key: str | bytes, value: Value, target: Value) -> Value:
    """The map with a value under one key, in which a dot is a dot; the map may be JSON text."""
    return {**_map(target), utf8(key): value}


@MAPS.function("V map", "A")
def map_to_entries(value: Value) -> Value:
    """The entries of a map or of the JSON text of one as maps with `key` and `value`, in the order of the keys."""
    pairs = _map(value)
    return [{"key": key, "value": pairs[key]} for key in sorted(pairs)]


@MAPS.function("V map", "A")
def map_to_redis_hset_args(value: Value) -> Value:
    """The fields and values of a map as one array of text, for the HSET of Redis; what is not scalar is left out."""
    try:
        pairs = _map(value)
    except EvaluationFault:
        return []
    return [part for key in sorted(pairs) for part in _hset_pair(key, pairs[key])]


def _hset_pair(key: str, value: Value) -> list[Value]:
    if isinstance(value, float):
        return [key, compact_text(value, 6)]
    if isinstance(value, bool | int | str | bytes):
        return [key, text_of(value)]
    return []


@MAPS.function("V map", "A")
def map_keys(value: Value) -> Value:
    """The keys of a map or of the JSON text of one, sorted."""
    return list[Value](sorted(_map(value)))


@MAPS.function("V map", "A")
def map_values(value: Value) -> Value:
    """The values of a map or of the JSON text of one, in the order of their keys."""
    pairs = _map(value)
    return [pairs[key] for key in sorted(pairs)]


@MAPS.function("V map", "I")
def map_size(value: Value) -> Value:
    """How many keys a map or the JSON text of one has."""
    return len(_map(value))


@MAPS.function("V one[, V other]", "V")
def coalesce(*values: Value) -> Value:
    """The first of two values, or of the elements of one array, that is not undefined; null is a value."""
    candidates = values[0] if len(values) == 1 else list(values)
    if not isinstance(candidates, list):
        raise EvaluationFault(f"a single argument must be an array, not {describe(candidates)}")
    return next((value for value in candidates if value is not UNDEFINED), UNDEFINED)


@MAPS.function("V one[, V other]", "V")
def coalesce_ne(*values: Value) -> Value:
    """As coalesce, but an empty string does not count either."""
    candidates = values[0] if len(values) == 1 else list(values)
    if not isinstance(candidates, list):
        raise EvaluationFault(f"a single argument must be an array, not {describe(candidates)}")
    return next((value for value in candidates if value is not UNDEFINED and value != ""), UNDEFINED)


@MAPS.function("", "V")
def null() -> Value:
    """Undefined."""
    return UNDEFINED


ARRAYS: Final = Family("Arrays")


@ARRAYS.function("I position, A array", "V")
def nth(position: int, array: list[Value]) -> Value:
    """The element at a position, counted from 1; fails outside of the array."""
    if not 0 < position <= len(array):
        raise EvaluationFault(f"an array of {len(array)} has no element {position}")
    return array[position - 1]


@ARRAYS.function("A array", "V")
def first(array: list[Value]) -> Value:
    """The first element; fails for an empty array."""
    if not array:
        raise EvaluationFault("the array is empty")
    return array[0]


@ARRAYS.function("A array", "V")
def last(array: list[Value]) -> Value:
    """The last element; fails for an empty array."""
    if not array:
        raise EvaluationFault("the array is empty")
    return array[-1]


@ARRAYS.function("A array", "I")
def length(array: list[Value]) -> Value:
    """How many elements the array has."""
    return len(array)


@ARRAYS.function("I start_or_length, V length_or_array[, A array]", "A")
def sublist(start_or_length: int, length_or_array: Value, array: list[Value] | None = None) -> Value:
    """The first elements, so many (length, array), or so many from a position counted from 1 (start, length, array)."""
    start: int = 1 if array is None else start_or_length
    length: Value = start_or_length if array is None else length_or_array
    elements: Value = length_or_array if array is None else array
    if type(length) is not int or not isinstance(elements, list):
        raise EvaluationFault("it needs a length and an array, or a position, a length and an array")
    if length < 0 or start < 1:
        raise EvaluationFault("the position must be 1 or more and the length 0 or more")
    return elements[start - 1 : start - 1 + length]


@ARRAYS.function("V value, A array", "B")
def contains(value: Value, array: list[Value]) -> Value:
    """Whether the array has an element that is equal to the value and of the same kind: 1.0 is not in [1]."""
    return any(equal_exactly(value, element) for element in array)
