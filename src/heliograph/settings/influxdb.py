"""Templates of InfluxDB's line protocol, as EMQX's `write_syntax` has them, taken apart."""

from dataclasses import dataclass
from typing import Final

#: Lines as they are given.
EXAMPLE: Final = "weather,station=${clientid} temp=${payload.temp},hum=${payload.hum}i ${timestamp}"
_KEY_ENDS: Final = "=, \n"
_VALUE_ENDS: Final = ", \n"
_ESCAPED: Final = frozenset(', ="\\')


@dataclass(frozen=True, slots=True)
class FieldTemplate:
    """A field: the templates of its key and value, and whether the value stands in quotes and is a text so."""

    key: str
    value: str
    is_quoted: bool


@dataclass(frozen=True, slots=True)
class LineTemplate:
    """A line, each part of which is a template; without escapes, which are made when it is filled."""

    measurement: str
    tags: tuple[tuple[str, str], ...]
    fields: tuple[FieldTemplate, ...]
    timestamp: str | None

    @property
    def templates(self) -> tuple[str, ...]:
        """All of them."""
        tags = [text for tag in self.tags for text in tag]
        fields = [text for one in self.fields for text in (one.key, one.value)]
        return (self.measurement, *tags, *fields, *([] if self.timestamp is None else [self.timestamp]))


def parse_lines(text: str) -> tuple[LineTemplate, ...]:
    """Take lines apart. Raises `ValueError` with the line that is to blame."""
    return _Lines(text).all()


class _Lines:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def all(self) -> tuple[LineTemplate, ...]:
        lines = []
        while True:
            self._skip(" \r\n")
            if self._place == len(self._text):
                break
            begin = self._place
            try:
                lines.append(self._line())
            except ValueError as error:
                raise ValueError(f"{self._text[begin:].splitlines()[0]!r}: {error}") from None
        if not lines:
            raise ValueError("it has no line")
        return tuple(lines)

    def _line(self) -> LineTemplate:
        measurement = self._some(_VALUE_ENDS, "the measurement")
        tags = []
        while self._take(","):
            tags.append((self._key("a tag"), self._some(_VALUE_ENDS, "the value of a tag")))
        if not self._take(" "):
            raise ValueError("fields are missing, after a blank")
        self._skip(" ")
        fields = [self._field()]
        while self._take(","):
            fields.append(self._field())
        self._skip(" ")
        timestamp = self._until(" \r\n") or None
        self._skip(" \r")
        if self._place < len(self._text) and self._text[self._place] != "\n":
            raise ValueError(f"{self._text[self._place :].splitlines()[0]!r} is too much")
        return LineTemplate(measurement, tuple(tags), tuple(fields), timestamp)

    def _field(self) -> FieldTemplate:
        key = self._key("a field")
        if not self._take('"'):
            return FieldTemplate(key, self._some(_VALUE_ENDS, "the value of a field"), False)
        value = self._until('"')
        if not self._take('"'):
            raise ValueError("a quote is not closed")
        return FieldTemplate(key, value, True)

    def _key(self, what: str) -> str:
        key = self._some(_KEY_ENDS, f"the name of {what}")
        if not self._take("="):
            raise ValueError(f"{what} {key!r} has no =")
        return key

    def _some(self, ends: str, what: str) -> str:
        found = self._until(ends)
        if not found:
            raise ValueError(f"{what} is missing")
        return found

    def _until(self, ends: str) -> str:
        """The text up to one of some characters, without escapes; placeholders are taken as a whole."""
        text, begin, found = self._text, self._place, []
        while self._place < len(text) and text[self._place] not in ends:
            if text[self._place] == "\\" and text[self._place + 1 : self._place + 2] in _ESCAPED:
                self._place += 1
            elif text.startswith("${", self._place):
                end = text.find("}", self._place)
                if end < 0:
                    raise ValueError(f"{text[begin:].splitlines()[0]!r} has a ${{ without its }}")
                found.append(text[self._place : end])
                self._place = end
            found.append(text[self._place])
            self._place += 1
        return "".join(found)

    def _take(self, character: str) -> bool:
        is_there = self._text.startswith(character, self._place)
        self._place += is_there
        return is_there

    def _skip(self, characters: str) -> None:
        while self._place < len(self._text) and self._text[self._place] in characters:
            self._place += 1
