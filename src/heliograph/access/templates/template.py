"""A text with placeholders: `${name}`, `${.name}`, `${client_attrs.NAME}`; `${$}` is a dollar sign."""

import logging
import re
from collections.abc import Callable, Collection, Iterable
from typing import Final

from heliograph.access.templates.values import Values

_PLACE: Final = re.compile(r"\$\{(?:(?P<dollar>\$)|\.?(?P<name>[A-Za-z0-9._]*))\}")
_QUOTED_PLACE: Final = re.compile(r'"\$\{\.?(?P<quoted>[A-Za-z0-9._]*)\}"|' + _PLACE.pattern)
_ATTRS: Final = "client_attrs"
_log = logging.getLogger(__name__)


class TemplateError(ValueError):
    """A template cannot be used, or not be filled in for a client; the text says why, without values of the client."""


class Template:
    """A text whose placeholders are filled in; made once, shared by all clients.

    Args:
        text: The text. A placeholder with a name that is not allowed is text.
        names: The names that are allowed; `client_attrs` stands for all of `client_attrs.NAME`.
        drops_quotes: Whether double quotes around a placeholder belong to it, as in SQL.

    Attributes:
        texts: What stands before, between and behind the placeholders: one more than there are names.
        names: The names of the placeholders, in their order.
        unknown: Names that are not allowed, for a warning.
    """

    def __init__(self, text: str, names: Collection[str], drops_quotes: bool = False) -> None:
        self.text = text
        self.texts: list[str] = []
        self.names: list[str] = []
        self.unknown: list[str] = []
        literal, done = "", 0
        for found in (_QUOTED_PLACE if drops_quotes else _PLACE).finditer(text):
            literal += text[done : found.start()]
            done = found.end()
            quoted = found["quoted"] if drops_quotes else None
            name = found["name"] if quoted is None else quoted
            if name is None:
                literal += "$"
            elif _is_allowed(name, names):
                self.texts.append(literal)
                self.names.append(name)
                literal = ""
            else:
                self.unknown.append(name)
                literal += f"${{{name}}}" if quoted is None else f'"${{{name}}}"'
        self.texts.append(literal + text[done:])

    def render(self, values: Values, encode: Callable[[str], str] | None = None) -> str:
        """Without a value it is empty; `encode` makes one safe for its place, such as `ldap.filter_value`."""
        pieces = [self.texts[0]]
        for name, text in zip(self.names, self.texts[1:], strict=True):
            value = values.get(name, "")
            pieces.append(value if encode is None else encode(value))
            pieces.append(text)
        return "".join(pieces)

    def topic(self, values: Values) -> str | None:
        return self.render(values) if all(name in values for name in self.names) else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


def _is_allowed(name: str, names: Collection[str]) -> bool:
    space, dot, _ = name.partition(".")
    return _ATTRS in names if dot and space == _ATTRS else name != _ATTRS and name in names


def warn_of_unknown(where: str, names: Iterable[str]) -> None:
    for name in names:
        _log.warning("%s: ${%s} is no placeholder here and stays as it is", where, name)
