"""Functions that read a column of the message or event, whatever aliases the rule has given."""

from typing import Final

from heliograph.rules.columns import Columns
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import utf8
from heliograph.rules.paths import read_key
from heliograph.rules.values import UNDEFINED, Value, describe

FAMILY: Final = Family("Columns")


def _column(result: str, column: str, name: str | None = None) -> None:
    def implementation(columns: Columns) -> Value:
        return columns.get(column)

    implementation.__doc__ = f"The column {column}."
    FAMILY.function("", result, name or column, column=column)(implementation)


_column("S", "id", "msgid")
_column("I", "qos")


@FAMILY.function("[I level]", "S", column="topic")
def topic(columns: Columns, level: int | None = None) -> Value:
    """The column topic, or one of its levels, counted from 1; fails outside of them."""
    name = columns.get("topic")
    if level is None or name is UNDEFINED:
        return name
    levels = name.split("/") if isinstance(name, str) else []
    if not 0 < level <= len(levels):
        raise EvaluationFault(f"{describe(name)} has no level {level}; it has {len(levels)}")
    return levels[level - 1]


_column("M", "flags")


@FAMILY.function("S name", "V", column="flags")
def flag(columns: Columns, name: str | bytes) -> Value:
    """One of the flags, 'retain' or 'dup'; undefined for any other name."""
    return read_key(columns.get("flags"), utf8(name))


_column("S", "clientid")
_column("S", "username")
_column("S", "peerhost", "clientip")
_column("S", "peerhost")


@FAMILY.function("[S path]", "V", column="payload")
def payload(columns: Columns, path: str | bytes | None = None) -> Value:
    """The column payload, or what lies in it at a path of names joined by dots; fails where it is no JSON then."""
    if path is None:
        return columns.get("payload")
    value = columns.document()
    # As with payload.<path>: a payload that is the JSON text of a string is not looked into.
    if not isinstance(value, dict):
        return UNDEFINED
    for name in utf8(path).split("."):
        value = read_key(value, name)
    return value
