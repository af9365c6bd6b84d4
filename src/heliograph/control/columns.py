"""How a kind of row is declared: each fact once, with its words and unit, for the API, `ctl`, files and pages."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

RowT = TypeVar("RowT")
StructT = TypeVar("StructT", bound=msgspec.Struct)


class FactKind(Enum):
    """What a value is, by the type that the document of the API names."""

    TEXT = "string"
    NUMBER = "integer"
    FLAG = "boolean"
    TIME = "time"
    """Microseconds since the epoch in rows; a text of RFC 3339 in the API."""
    MAP = "object"


class In(IntFlag):
    """Where a column is shown."""

    API = 1
    LIST = 2
    """The rows of `ctl ... list`, for `--columns`, `--sort` and `--json`."""
    TABLE = 4
    """The table of `ctl ... list` without `--columns`."""
    DETAILS = 8
    """`ctl ... show`."""


EVERYWHERE: Final = In.API | In.LIST | In.TABLE | In.DETAILS
LISTED: Final = In.API | In.LIST | In.DETAILS
DETAILED: Final = In.API | In.DETAILS


def _same(value: Any) -> object:
    return value


def or_none(value: Any) -> object:
    """The API answers null for what is empty."""
    return value or None


def or_infinity(value: Any) -> object:
    """The API answers EMQX's word for a bound that is 0: there is none."""
    return value or "infinity"


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """One fact of a row.

    Attributes:
        name: Its key in the API, in JSON and in files; EMQX's, where EMQX has the fact.
        label: What people read above it.
        of: The value of a row; None where it is not known.
        kind: What the value is.
        unit: `messages`, `bytes`, `s`; empty for a text, a flag, a time or a plain number.
        shown: Where it is shown.
        unknown: What the API answers for None.
        answered: What the API answers for a value that is known.
    """

    name: str
    label: str
    of: Callable[[RowT], Any]
    kind: FactKind = FactKind.NUMBER
    unit: str = ""
    shown: In = In.API
    unknown: object = None
    answered: Callable[[Any], object] = _same

    def answer(self, row: RowT) -> object:
        """What the API answers, times in microseconds."""
        value = self.of(row)
        return self.unknown if value is None else self.answered(value)


def columns_of(
    row: type[StructT], times: Container[str] = (), table: Container[str] | None = None
) -> tuple[Column[StructT], ...]:
    """The fields of a struct as columns of a list.

    Args:
        times: Those in microseconds since the epoch.
        table: Those that a table has by default; None for all.
    """
    listed = In.API | In.LIST
    return tuple(
        Column(
            name,
            name.replace("_", " ").capitalize(),
            attrgetter(name),
            FactKind.TIME if name in times else FactKind.TEXT,
            shown=listed | In.TABLE if table is None or name in table else listed,
        )
        for name in row.__struct_fields__
    )


def columns_in(columns: Iterable[Column[RowT]], place: In) -> dict[str, Column[RowT]]:
    """Those that are shown there, by their names, in their order."""
    return {one.name: one for one in columns if place in one.shown}


def schema_of(columns: Sequence[Column[RowT]]) -> dict[str, Any]:
    """The JSON Schema of a row in the API."""
    return {"type": "object", "properties": {one.name: _schema(one) for one in columns if In.API in one.shown}}


def _schema(column: Column[Any]) -> dict[str, Any]:
    is_time = column.kind is FactKind.TIME
    types: list[str] = ["string" if is_time else column.kind.value]
    if column.unknown is None:
        types.append("null")
    if isinstance(column.unknown, str) or column.answered is or_infinity:
        types.append("string")
    found: dict[str, Any] = {"title": column.label, "type": types[0] if len(set(types)) == 1 else sorted(set(types))}
    if is_time:
        found["format"] = "date-time"
    if column.unit:
        found["x-unit"] = column.unit
    return found
