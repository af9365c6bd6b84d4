"""How a kind of row is declared: each fact once, with its words and unit, for the API and its schema, and `ctl`."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec


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


_KINDS: Final[Mapping[object, FactKind]] = MappingProxyType({int: FactKind.NUMBER, bool: FactKind.FLAG})

EVERYWHERE: Final = In.API | In.LIST | In.TABLE | In.DETAILS
ON_REQUEST: Final = In.API | In.LIST | In.DETAILS
DETAILED: Final = In.API | In.DETAILS


def or_none(value: Any) -> object:
    """The API answers null for what is empty."""
    return value or None


def or_infinity(value: Any) -> object:
    """The API answers EMQX's word for a bound that is 0: there is none."""
    return value or "infinity"


@dataclass(frozen=True, slots=True)
class Column:
    """One fact of a row.

    Attributes:
        name: Its key in the API, in JSON and in files; EMQX's, where EMQX has the fact.
        label: What the schema of the API calls it.
        kind: What the value is.
        unit: `messages`, `bytes`, `s`; empty for a text, a flag, a time or a plain number.
        shown: Where it is shown.
        field: The attribute of a row that has it, as `group.attribute`; empty if that is `name`. None stands for
            a value that is not known.
        unknown: What the API answers for None; `msgspec.UNSET` if it leaves the key out.
        answered: What the API answers for a value that is known; None for the value.
        time_us: How many microseconds the unit of a time has.
        is_null_if_empty: Whether the API answers null for 0 and for what is empty.
    """

    name: str
    label: str
    kind: FactKind = FactKind.NUMBER
    unit: str = ""
    shown: In = In.API
    field: str = ""
    unknown: object = None
    answered: Callable[[Any], object] | None = None
    time_us: int = 1
    is_null_if_empty: bool = False

    def of(self, row: object) -> Any:
        """The value of a row."""
        return attrgetter(self.field or self.name)(row)


def answers_of(columns: Mapping[str, Column], time_text: Callable[[int], str]) -> Callable[[object], Any]:
    """What makes objects of the API of rows: structs that `msgspec` writes, with the columns as their attributes.

    A constructor is compiled here, as `dataclasses` compiles them: a page has a thousand rows of sixty facts. A loop
    over the columns takes four times as long, a dictionary of so many keys twice as long to make and to write.

    Args:
        columns: What an object has, by its keys, in their order.
        time_text: How a time in microseconds is answered.
    """
    attributes = {name.replace(".", "_"): name for name in columns}
    made = msgspec.defstruct("Answer", [(one, object) for one in attributes], rename=attributes, gc=False)
    given: dict[str, Any] = {"made": made}
    values = []
    for number, column in enumerate(columns.values()):
        value = f"row.{column.field or column.name}"
        is_time = column.kind is FactKind.TIME
        answered = time_text if is_time else column.answered
        if answered is not None or column.unknown is not None or column.is_null_if_empty:
            given |= {f"unknown_{number}": column.unknown, f"answered_{number}": answered}
            known = "value" if not is_time or column.time_us == 1 else f"int(value * {column.time_us})"
            known = known if answered is None else f"answered_{number}({known})"
            is_unknown = "not (value := {})" if column.is_null_if_empty else "(value := {}) is None"
            value = f"unknown_{number} if {is_unknown.format(value)} else {known}"
        values.append(value)
    answers: Callable[[object], Any] = eval(f"lambda row: made({', '.join(values)})", given)  # of declarations only
    return answers


@dataclass(frozen=True, slots=True)
class Fact:
    """What a field of a row declares beside its name and type: `Annotated[int, Fact(time_us=1)]`.

    Attributes:
        name: Its key in the API; empty if that is its own name.
        time_us: How many microseconds its unit has, if it is a time since the epoch; the API has it as text.
        unknown: What the API answers for None.
        is_null_if_empty: Whether the API answers null for 0 and for what is empty.
        is_left_out: Whether the API leaves it out where it would be null.
        is_shown: Whether the API shows it.
        answered: What the API answers for a value.
        answers: The type of that; None for the type of the field.
    """

    name: str = ""
    time_us: int = 0
    unknown: object = None
    is_null_if_empty: bool = False
    is_left_out: bool = False
    is_shown: bool = True
    answered: Callable[[Any], object] | None = None
    answers: Any = None


_PLAIN: Final = Fact()
SECOND_US: Final = 1_000_000
Time = Annotated[int, Fact(time_us=1)]
"""Microseconds since the epoch."""
TimeS = Annotated[int, Fact(time_us=SECOND_US)]
"""Seconds since the epoch."""


def fact_of(field: msgspec.structs.FieldInfo) -> tuple[Fact, Any]:
    """What a field declares, and its type."""
    kind, *declared = get_args(field.type) if get_origin(field.type) is Annotated else (field.type,)
    return next((one for one in declared if isinstance(one, Fact)), _PLAIN), kind


def columns_of(row: type[msgspec.Struct], table: Container[str] | None = None) -> tuple[Column, ...]:
    """The fields of a struct as columns of a list of `ctl`.

    Args:
        table: Those that a table has by default; None for all.
    """
    return tuple(
        Column(
            one.name,
            one.name.replace("_", " ").capitalize(),
            FactKind.TIME if fact.time_us else _KINDS.get(kind, FactKind.TEXT),
            shown=In.LIST | In.TABLE if table is None or one.name in table else In.LIST,
        )
        for one in msgspec.structs.fields(row)
        for fact, kind in (fact_of(one),)
    )


def columns_in(columns: Iterable[Column], place: In) -> dict[str, Column]:
    """Those that are shown there, by their names, in their order."""
    return {one.name: one for one in columns if place in one.shown}


def schema_of(columns: Sequence[Column]) -> dict[str, Any]:
    """The JSON Schema of a row in the API."""
    return {"type": "object", "properties": {one.name: _schema(one) for one in columns if In.API in one.shown}}


def _schema(column: Column) -> dict[str, Any]:
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
