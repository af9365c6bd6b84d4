"""Functions of maps, and the choice among values that may be undefined."""

from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import decode_json
from heliograph.rules.paths import read_key
from heliograph.rules.values import UNDEFINED, Value, describe

FAMILY: Final = Family("Maps")


def _map(value: Value) -> dict[str, Value]:
    """A map, or the map that a JSON text holds.

    Raises:
        EvaluationFault: The value is neither.
    """
    decoded = value
    if isinstance(value, str | bytes):
        try:
            decoded = decode_json(value)
        except EvaluationFault:
            decoded = UNDEFINED
    if not isinstance(decoded, dict):
        raise EvaluationFault(f"{describe(value)} is neither a map nor the JSON text of one")
    return decoded


@FAMILY.function("V value", "M", name="map")
def to_map(value: Value) -> Value:
    """A map itself, or the map that a JSON text holds."""
    return _map(value)


@FAMILY.function("", "M")
def map_new() -> Value:
    """An empty map."""
    return {}


@FAMILY.function("S path, V map[, V default]", "V")
def map_get(path: str | bytes, value: Value, default: Value = UNDEFINED) -> Value:
    """What lies at a path of names joined by dots, in a map or the JSON text of one, or else the default."""
    if isinstance(path, bytes):
        return default
    for name in path.split("."):
        value = read_key(value, name)
    return default if value is UNDEFINED else value


@FAMILY.function("S key, V map[, V default]", "V")
def mget(key: str | bytes, value: Value, default: Value = UNDEFINED) -> Value:
    """The value of one key, in which a dot is a dot, or else the default."""
    return default if isinstance(key, bytes) else _map(value).get(key, default)


@FAMILY.function("V map", "A")
def map_keys(value: Value) -> Value:
    """The keys of a map or of the JSON text of one, sorted."""
    return list[Value](sorted(_map(value)))


@FAMILY.function("V map", "A")
def map_values(value: Value) -> Value:
    """The values of a map or of the JSON text of one, in the order of their keys."""
    pairs = _map(value)
    return [pairs[key] for key in sorted(pairs)]


@FAMILY.function("V map", "I")
def map_size(value: Value) -> Value:
    """How many keys a map or the JSON text of one has."""
    return len(_map(value))


@FAMILY.function("V one[, V other]", "V")
def coalesce(*values: Value) -> Value:
    """The first of two values, or of the elements of one array, that is not undefined; null is a value."""
    candidates = values[0] if len(values) == 1 else list(values)
    if not isinstance(candidates, list):
        raise EvaluationFault(f"a single argument must be an array, not {describe(candidates)}")
    return next((value for value in candidates if value is not UNDEFINED), UNDEFINED)


@FAMILY.function("", "V")
def null() -> Value:
    """Undefined."""
    return UNDEFINED
