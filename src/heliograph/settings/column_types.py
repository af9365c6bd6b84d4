"""Types of columns as Spark writes them, such as `array<double>`, `map<string, bigint>` or `struct<id: string>`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: What there is beside scalars, for messages.
NESTED_TYPES: Final = "`array<T>`, `map<string, T>` and `struct<name: T, ...>`"

ARRAY: Final = "array"
MAP: Final = "map"
STRUCT: Final = "struct"

# Each level costs a call on the stack for each value.
_LEVELS_MAX: Final = 16
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN: Final = re.compile(r"`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*(?:\s*\([0-9,\s]*\))?|[<>,:]")


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type of a column.

    Attributes:
        name: `array`, `map`, `struct`, or a scalar as the caller names it.
        fields: Those of a structure by name; of an array its only element, of a map its only value.
    """

    name: str
    fields: "tuple[tuple[str, ColumnType], ...]" = ()

    def __str__(self) -> str:
        if self.name == STRUCT:
            return f"struct<{','.join(f'{_quoted(name)}:{kind}' for name, kind in self.fields)}>"
        if self.name == MAP:
            return f"map<string,{self.fields[0][1]}>"
        return f"array<{self.fields[0][1]}>" if self.name == ARRAY else self.name

    @property
    def is_nested(self) -> bool:
        """Whether it is no scalar."""
        return bool(self.fields)


def column_type(text: str, scalar: Callable[[str], str]) -> ColumnType:
    """The type that a text names.

    Args:
        scalar: Gives the name of a scalar type, and raises `ValueError` where there is no such type.

    Raises:
        ValueError: It names no type.
    """
    if "<" not in text:
        return ColumnType(scalar(text))
    tokens = _TOKEN.findall(text)
    if "".join("".join(tokens).split()) != "".join(text.split()):
        raise ValueError(f"{text!r} is no type: nested ones are {NESTED_TYPES}")
    return _Parser(text, tokens, scalar).whole()


class _Parser:
    def __init__(self, text: str, tokens: list[str], scalar: Callable[[str], str]) -> None:
        self._text = text
        self._tokens = tokens
        self._scalar = scalar
        self._place = 0

    def whole(self) -> ColumnType:
        kind = self._type(0)
        if self._place != len(self._tokens):
            raise self._fault(f"ends before {self._tokens[self._place]!r}")
        return kind

    def _type(self, level: int) -> ColumnType:
        if level > _LEVELS_MAX:
            raise self._fault(f"has more than {_LEVELS_MAX} levels")
        word = self._next()
        name = word.lower()
        if name not in (ARRAY, MAP, STRUCT):
            return ColumnType(self._scalar(word))
        self._expect("<")
        if name == STRUCT:
            fields = self._fields(level)
        else:
            if name == MAP:
                key = self._next()
                if key.lower() != "string":
                    raise self._fault(f"has keys of type {key}: keys are strings")
                self._expect(",")
            fields = ((name, self._type(level + 1)),)
        self._expect(">")
        return ColumnType(name, fields)

    def _fields(self, level: int) -> tuple[tuple[str, ColumnType], ...]:
        fields: dict[str, tuple[str, ColumnType]] = {}
        while True:
            token = self._next()
            name = token[1:-1].replace("``", "`") if token.startswith("`") else token
            if token in "<>,:" or (token == name and _WORD.fullmatch(name) is None):
                raise self._fault(f"has {token!r} where the name of a field stands; others stand in `backticks`")
            if name.casefold() in fields:
                raise self._fault(
                    f"has the field {name!r} twice; Spark does not tell apart names that differ in case only"
                )
            if self._peek() == ":":
                self._place += 1
            fields[name.casefold()] = (name, self._type(level + 1))
            if self._peek() != ",":
                return tuple(fields.values())
            self._place += 1

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise self._fault("is not complete")
        self._place += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise self._fault(f"has {found!r} where {token!r} stands")

    def _fault(self, text: str) -> ValueError:
        return ValueError(f"{self._text!r} is no type, it {text}: nested ones are {NESTED_TYPES}")


def _quoted(name: str) -> str:
    return name if _WORD.fullmatch(name) else f"`{name.replace('`', '``')}`"
