"""The kinds of settings: what a field of the configuration accepts, and how its values are written.

A kind turns the value that HOCON read into the value that the program uses. How fields of that kind are declared is in
`fields`; how a document is read with them, in `reading`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeVar

from heliograph.hocon.values import Content, Node, Plain, to_plain
from heliograph.mqtt.template import split_template
from heliograph.settings.secrets import STARS, Secret
from heliograph.settings.units import check_topic_filter, format_duration, format_size, parse_duration, parse_size

Value = TypeVar("Value")

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4000}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PEM: Final = "-----BEGIN "


class RefusedError(ValueError):
    """A value that a kind refuses, or settings that do not go together; `at` is the one to blame, empty for all."""

    def __init__(self, text: str = "", at: str = "") -> None:
        super().__init__(text)
        self.at = at


class Kind(Generic[Value]):
    """One kind of scalar setting.

    Attributes:
        expected: What is valid, to follow "expected".
        is_word: Whether a file has its texts without quotes, as `10s`.
        is_place: Whether it says where a server or store is, so that secrets of its group are sent there.
        is_sent: Whether it is a template of what a server is sent: its constant texts may be secrets of that server.
    """

    expected: str = ""
    is_word: ClassVar[bool] = False
    is_place: ClassVar[bool] = False
    is_sent: ClassVar[bool] = False

    def convert(self, value: Content) -> Value:
        """The value for the program; raises `RefusedError`."""
        raise NotImplementedError

    def read(self, node: Node) -> Value:
        """As `convert`, of a kind to which it matters where a value stands."""
        return self.convert(node.value)

    def plain(self, value: Value) -> Plain:
        """The value as JSON has it: `convert` reads the same again."""
        if isinstance(value, int):
            return value
        if isinstance(value, Mapping):
            return dict(value)
        return list(value) if isinstance(value, tuple) else str(value)

    def show(self, value: Value) -> str:
        """The value as one would write it in a file."""
        plain = self.plain(value)
        return plain if self.is_word and isinstance(plain, str) and plain else json.dumps(plain, ensure_ascii=False)


class Boolean(Kind[bool]):
    """`true` or `false`."""

    expected = "true or false"

    def convert(self, value: Content) -> bool:
        """Also the words in quotes."""
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        raise RefusedError


class Integer(Kind[int]):
    """An integer within bounds."""

    def __init__(self, minimum: int, maximum: int | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.expected = f"an integer {_range(str(minimum), None if maximum is None else str(maximum))}"

    def convert(self, value: Content) -> int:
        """Also digits in quotes."""
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise RefusedError
        if value < self.minimum or (self.maximum is not None and value > self.maximum):
            raise RefusedError
        return value


class Number(Kind[float]):
    """An integer or a fraction, not below a bound."""

    def __init__(self, minimum: float) -> None:
        self.minimum = minimum
        self.expected = f"a number {_range(f'{minimum:g}', None)}"

    def convert(self, value: Content) -> float:
        """Also a number in quotes."""
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value)
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.minimum <= value < 1e300:
            raise RefusedError
        return float(value)

    def plain(self, value: float) -> float:
        """Without a fraction where there is none."""
        return int(value) if value == int(value) else value


class Text(Kind[str]):
    """Text that is not blank or, where a pattern is given, matches it."""

    def __init__(self, expected: str = "a text", pattern: str = r"(?s).*\S.*") -> None:
        self.expected = expected
        self.pattern = re.compile(pattern)

    def convert(self, value: Content) -> str:
        """Also an integer, as its digits."""
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**4000:
            value = str(value)
        if not isinstance(value, str) or "\0" in value or self.pattern.fullmatch(value) is None:
            raise RefusedError
        return value


class AnyText(Text):
    """Text that may be empty."""

    def __init__(self, expected: str = "a text") -> None:
        super().__init__(expected, r"(?s).*")


class NodePath(Text):
    """The path of files that a node writes; a relative one lies in a directory of its own, and may not leave it.

    Callers of the HTTP API that may not change the configuration name relative ones only.
    """

    def __init__(self) -> None:
        super().__init__("a path without .., which does not end with a slash", r"(?!(?:.*/)?\.\.(?:/|$))[^\n]*[^/\n]")


class PemFile(Text):
    """The path of a PEM file, which may be empty; a change of a running node may have its text (`config_changes`)."""

    def __init__(self, expected: str = "a file") -> None:
        super().__init__(expected, r"(?s).*")

    def convert(self, value: Content) -> str:
        """The path; the text itself is refused, and not quoted."""
        if isinstance(value, str) and is_pem(value):
            raise RefusedError("a file names a file; its text is taken where a running node is changed")
        return super().convert(value)


class Choice(Kind[str]):
    """One word of a few."""

    is_word = True

    def __init__(self, *words: str) -> None:
        self.words = words
        self.expected = " or ".join([part for part in (", ".join(words[:-1]), words[-1]) if part])

    def convert(self, value: Content) -> str:
        """The word as it is."""
        if not isinstance(value, str) or value not in self.words:
            raise RefusedError
        return value


class Words(Kind[Value]):
    """One word of a few, each of which means a value."""

    is_word = True

    def __init__(self, meanings: Mapping[str, Value]) -> None:
        self.meanings = meanings
        self.expected = Choice(*meanings).expected

    def convert(self, value: Content) -> Value:
        """What the word means."""
        if not isinstance(value, str) or value not in self.meanings:
            raise RefusedError
        return self.meanings[value]

    def plain(self, value: Value) -> str:
        """The word."""
        return next(word for word, meaning in self.meanings.items() if meaning == value)


class Switch(Choice):
    """`true`, `false` or one of a few words; the program gets the word, `true` and `false` as words too."""

    def __init__(self, *words: str) -> None:
        super().__init__("true", "false", *words)

    def convert(self, value: Content) -> str:
        """Also the keywords themselves."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return super().convert(value)

    def plain(self, value: str) -> Plain:
        """The keyword, or the word."""
        return value == "true" if value in ("true", "false") else value


class Duration(Kind[float]):
    """A span of time; the program gets seconds.

    Args:
        needs_unit: Whether a plain integer, of which readers may think as days or seconds, is refused.
    """

    is_word = True

    def __init__(self, minimum: float = 0.0, maximum: float | None = None, *, needs_unit: bool = False) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.needs_unit = needs_unit
        bounds = (
            ""
            if minimum == 0 and maximum is None
            else " " + _range(format_duration(minimum), None if maximum is None else format_duration(maximum))
        )
        plain = 'with its unit, as in "7d"' if needs_unit else "(a plain integer is milliseconds)"
        self.expected = f"a duration{bounds} {plain}"

    def convert(self, value: Content) -> float:
        """A text with units, or an integer in milliseconds where that is allowed."""
        if isinstance(value, str) and _INTEGER.fullmatch(value) and not self.needs_unit:
            value = int(value)
        if isinstance(value, str):
            seconds = detailed(parse_duration, value)
        elif isinstance(value, int) and not isinstance(value, bool) and not self.needs_unit and 0 <= value < 10**15:
            seconds = value / 1000
        else:
            raise RefusedError
        if seconds < self.minimum or (self.maximum is not None and seconds > self.maximum):
            raise RefusedError
        return seconds

    def plain(self, value: float) -> str:
        """With units."""
        return format_duration(value)


class Size(Kind[int]):
    """An amount of bytes within bounds."""

    is_word = True

    def __init__(self, minimum: int, maximum: int | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.expected = f"a size {_range(format_size(minimum), None if maximum is None else format_size(maximum))}"

    def convert(self, value: Content) -> int:
        """A text with a unit, or an integer in bytes."""
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        size = detailed(parse_size, value) if isinstance(value, str) else value
        if not isinstance(size, int) or isinstance(size, bool):
            raise RefusedError
        if size < self.minimum or (self.maximum is not None and size > self.maximum):
            raise RefusedError
        return size

    def plain(self, value: int) -> str:
        """With a unit."""
        return format_size(value)


class FilterText(Kind[str]):
    """An MQTT topic filter."""

    expected = 'a topic filter, as in "weather/+/obs"'

    def convert(self, value: Content) -> str:
        """The filter, checked."""
        if not isinstance(value, str):
            raise RefusedError
        return detailed(check_topic_filter, value)


class TopicFilters(Kind[tuple[str, ...]]):
    """One topic filter or a list of them."""

    expected = 'a topic filter, as in "t/#", or a list of them'

    def convert(self, value: Content) -> tuple[str, ...]:
        """A tuple of filters, of which each is there once."""
        one = FilterText()
        if isinstance(value, str):
            return (one.convert(value),)
        if not isinstance(value, list):
            raise RefusedError
        return tuple(dict.fromkeys(one.convert(item.value) for item in value))


class Texts(Kind[Mapping[str, str]]):
    """Texts by name, such as the options of another program; numbers and booleans are text too."""

    expected = 'an object of texts, as in { name = "value" }'

    def convert(self, value: Content) -> Mapping[str, str]:
        """A mapping, in the order of the file."""
        if not isinstance(value, dict):
            raise RefusedError
        return {name: self._text(name, node.value) for name, node in value.items()}

    def _text(self, name: str, value: Content) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, str | int | float) or value == "":
            raise RefusedError(f"{name} is not a text")
        return str(value)


class StoreOptions(Texts):
    """Options of a library that reaches a store; they may be secret, say where secrets go, and name files.

    Args:
        may_load_code: Whether one of them, or the server that they name, says which module the library imports.
    """

    is_place = True

    def __init__(self, *, may_load_code: bool = False) -> None:
        self.may_load_code = may_load_code


class CodeName(Text):
    """The name of what a library loads by it, which may be that of a class or module."""

    is_place = True

    def __init__(self, expected: str) -> None:
        super().__init__(expected, r"[A-Za-z_][\w.-]*")


class Anything(Kind[Node]):
    """Whatever a file says, for a reader of its own."""

    expected = "anything"

    def read(self, node: Node) -> Node:
        """The value as it stands."""
        return node

    def plain(self, value: Node) -> Plain:
        """What it says."""
        return to_plain(value)


class SecretText(Kind[Secret]):
    """A password or key, which is never shown, or the file that holds it."""

    is_word = True
    expected = "a text, or a file that holds it as in file:///run/secrets/key"

    def __init__(self, *, may_be_empty: bool = False) -> None:
        self.may_be_empty = may_be_empty

    def convert(self, value: Content) -> Secret:
        """The text in a box, or the path of the file."""
        secret = Secret.of(_ANY_TEXT.convert(value))
        if not (secret or self.may_be_empty) or secret.file == Path():
            raise RefusedError
        return secret

    def plain(self, value: Secret) -> str:
        """Nothing of it."""
        return STARS if value else ""


class OrTemplate(Kind[Value | str]):
    """Another kind, or a template with a placeholder, which each row fills in."""

    def __init__(self, kind: Kind[Value], example: str) -> None:
        self.kind = kind
        self.expected = f'{kind.expected}, or a template, as in "{example}"'

    def convert(self, value: Content) -> Value | str:
        """A template is a text as it is."""
        if not isinstance(value, str) or "${" not in value:
            return self.kind.convert(value)
        if any("${" in part for part, _ in split_template(value, lambda name: True)):
            raise RefusedError("it has a ${ without its }")
        return value


class Unless(Kind[Value | None]):
    """Another kind, or a word that switches the limit or feature off; the program then gets None.

    Args:
        words: The words; the first is the one to show.
        zero: Whether 0 means the same.
    """

    def __init__(self, kind: Kind[Value], *words: str, zero: bool = False) -> None:
        self.kind = kind
        self.words = words
        self.takes_zero = zero
        self.expected = f"{kind.expected}, or {words[0]}" + (" (also 0)" if zero else "")

    def convert(self, value: Content) -> Value | None:
        """None for one of the words."""
        if isinstance(value, str) and value in self.words:
            return None
        if self.takes_zero and value in (0, "0") and not isinstance(value, bool):
            return None
        return self.kind.convert(value)

    def plain(self, value: Value | None) -> Plain:
        """The word for None."""
        return self.words[0] if value is None else self.kind.plain(value)

    def show(self, value: Value | None) -> str:
        """The word for None."""
        return self.words[0] if value is None else self.kind.show(value)


_ANY_TEXT: Final = AnyText()


def is_pem(text: str) -> bool:
    """Whether it is the text of a certificate or a key, and no path."""
    return _PEM in text


def detailed(parse: Callable[[str], Value], text: str) -> Value:
    """What a reader of texts makes of one; what it raises becomes the detail of a refusal."""
    try:
        return parse(text)
    except ValueError as error:
        raise RefusedError(str(error)) from None


def _range(minimum: str, maximum: str | None) -> str:
    return f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
