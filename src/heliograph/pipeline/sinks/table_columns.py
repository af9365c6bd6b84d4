"""Compares the columns of rows with those of a table: which it lacks, and which have another type.

The words of types are the database's own where there is one. Single values are not looked at: one that does not fit
is a refused row.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from heliograph.pipeline.errors import SinkError

_OF_ARRAY: Final = "[]"
_DETAILS: Final = re.compile(r"\([^)]*\)")


class TypeFamily(Enum):
    """Types that are read and written alike."""

    INTEGER = auto()
    FRACTION = auto()
    BOOLEAN = auto()
    DATE = auto()
    TIME = auto()
    BINARY = auto()
    TEXT = auto()
    JSON = auto()


# What a column takes without a change of its values; a text can hold them all, and of a type that is not known here
# (uuid, inet, an enumeration) the database says it for each value.
_TAKES: Final[Mapping[TypeFamily, frozenset[TypeFamily]]] = {
    TypeFamily.INTEGER: frozenset({TypeFamily.INTEGER}),
    TypeFamily.FRACTION: frozenset({TypeFamily.INTEGER, TypeFamily.FRACTION}),
    TypeFamily.BOOLEAN: frozenset({TypeFamily.BOOLEAN}),
    TypeFamily.DATE: frozenset({TypeFamily.DATE}),
    TypeFamily.TIME: frozenset({TypeFamily.DATE, TypeFamily.TIME}),
    TypeFamily.BINARY: frozenset({TypeFamily.BINARY}),
    TypeFamily.TEXT: frozenset(TypeFamily),
    TypeFamily.JSON: frozenset(TypeFamily) - {TypeFamily.DATE, TypeFamily.TIME, TypeFamily.BINARY},
}


@dataclass(frozen=True)
class RowColumn:
    """A column of rows.

    Attributes:
        kind: Its type in Spark.
        type: The type of the column that a table gets for it.
    """

    name: str
    kind: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} ({self.type})"


def check_types(
    columns: Sequence[RowColumn],
    held: Callable[[str], str | None],
    families: Mapping[str, TypeFamily],
    target: str,
) -> None:
    """Refuse rows where a column of the table has a type that cannot take their values.

    Args:
        held: The type of a column of the table, None if it has no such column.
        families: Of the database's types, without what stands in brackets behind them.

    Raises:
        SinkError: There is such a column.
    """
    for column in columns:
        found = held(column.name)
        if found is not None and not _takes(found, column.type, families):
            raise SinkError(
                f"{target}: the column {column.name!r} is {found}, but the rows have {column.kind} there "
                f"({column.type}): give it another name or type in the rows, or change the table"
            )


def said_of(missing: Sequence[RowColumn], target: str, *, may_add: bool) -> tuple[str, ...]:
    """What adding columns would change, in words.

    Raises:
        SinkError: They may not be added.
    """
    if missing and not may_add:
        names = ", ".join(map(str, missing))
        raise SinkError(f"{target} lacks columns of the rows: {names}. Add them, or set merge_schema = true")
    return tuple(f"adds the column {column}" for column in missing)


def _takes(held: str, wanted: str, families: Mapping[str, TypeFamily]) -> bool:
    if held.endswith(_OF_ARRAY) and wanted.endswith(_OF_ARRAY):
        return _takes(held.removesuffix(_OF_ARRAY), wanted.removesuffix(_OF_ARRAY), families)
    of_wanted = TypeFamily.JSON if wanted.endswith(_OF_ARRAY) else _family(wanted, families)
    if held.endswith(_OF_ARRAY):
        return of_wanted is TypeFamily.TEXT  # which may be an array as the database writes it
    of_held = _family(held, families)
    return of_held is None or of_wanted is None or of_wanted in _TAKES[of_held]


def _family(kind: str, families: Mapping[str, TypeFamily]) -> TypeFamily | None:
    name = " ".join(_DETAILS.sub("", kind.lower()).split())
    return families.get(name) or families.get(name.split(" ")[0])
