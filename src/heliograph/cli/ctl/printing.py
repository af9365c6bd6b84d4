"""Prints answers of a node: tables and facts for people, JSON for programs."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

_NOTHING: Final = "-"
_GAP: Final = "  "
_WIDTH_MAX: Final = 60  # of a column that is not the last one


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        heading: What stands above it.
        of: The value of a row; None: its field of that name.
    """

    heading: str
    of: Callable[[Any], object] | None = None

    def text(self, row: object) -> str:
        """What stands in it for a row."""
        return text_of(self.of(row) if self.of is not None else getattr(row, self.heading))


def print_rows(rows: Iterable[object], columns: Sequence[str | TableColumn], as_json: bool) -> int:
    """Print a list: a table, or one JSON object a line; how many rows it has.

    Args:
        columns: Those of the table, or the names of fields. JSON has all fields.
    """
    if as_json:
        count = 0
        for row in rows:
            print_json(row)
            count += 1
        return count
    shown = [one if isinstance(one, TableColumn) else TableColumn(one) for one in columns]
    table = [[column.heading.upper() for column in shown]]
    table += [[column.text(row) for column in shown] for row in rows]
    widths = [min(_WIDTH_MAX, max(map(len, column))) for column in zip(*table, strict=True)]
    widths[-1] = 0
    for line in table:
        print(_GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    return len(table) - 1


def print_done(answer: msgspec.Struct, sentence: str, as_json: bool) -> int:
    """Print what an action came to, as a sentence or as a JSON object; the exit code."""
    if as_json:
        print_json(answer)
    else:
        print(sentence)
    return 0


def print_facts(facts: msgspec.Struct | Mapping[str, object], as_json: bool) -> None:
    """Print a struct, or what stands under some names: a line for each field, or one JSON object."""
    if as_json:
        print_json(facts)
        return
    named = msgspec.structs.asdict(facts) if isinstance(facts, msgspec.Struct) else facts
    width = max(map(len, named))
    for name, value in named.items():
        lines = [text_of(one) for one in value] if isinstance(value, list | tuple) else [text_of(value)]
        for number, line in enumerate(lines or [_NOTHING]):
            print(f"{'' if number else name.replace('_', ' '):<{width}}{_GAP}{line}")


def print_json(value: object) -> None:
    """Print one JSON value on a line."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def text_of(value: object) -> str:
    """A value for people. What clients choose, such as their ids, cannot move the cursor or write lines of its own."""
    if value is None or value == "":
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:z,.6f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        return ", ".join(map(text_of, value)) or _NOTHING
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    text = str(value)
    return text if text.isprintable() else "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
