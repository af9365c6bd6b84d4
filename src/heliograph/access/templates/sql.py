"""SQL statements: each placeholder is a parameter, so that what a client sends is never a part of the statement."""

from collections.abc import Collection
from typing import Final

from heliograph.access.templates.template import Template, TemplateError
from heliograph.access.templates.values import Values

# Dialects: parameters as `?`; as `$1`, `$2`; as `%s`, where the client inserts them (and `%` is written `%%`).
MYSQL: Final = "mysql"
POSTGRESQL: Final = "pg"
FORMAT: Final = "format"

_QUOTES: Final = "'\"`"
_COMMENT_ENDS: Final = {"-- ": "\n", "#": "\n", "/*": "*/"}


class Statement:
    """A statement and what its parameters are.

    Args:
        text: The statement of the configuration. Double quotes around a placeholder are dropped; within single quotes
            `?` is a text of the statement, and no parameter.

    Attributes:
        text: The statement for the server.
        names: What its parameters are, in their order; one that is there twice is two parameters.
        unknown: Names that are not allowed, for a warning.

    Raises:
        TemplateError: A placeholder stands in quotes or a comment, and the dialect is `format`: the value would be
            inserted there.
    """

    def __init__(self, text: str, names: Collection[str], dialect: str) -> None:
        template = Template(text, names, drops_quotes=True)
        self.names = template.names
        self.unknown = template.unknown
        texts = template.texts
        if dialect == FORMAT:
            _check_quotes(template)
            texts = [part.replace("%", "%%") for part in texts]
        marks = [_mark(dialect, number) for number in range(1, len(self.names) + 1)]
        self.text = texts[0] + "".join(mark + part for mark, part in zip(marks, texts[1:], strict=True))

    def params(self, values: Values) -> list[str]:
        """Empty where the client has no value; `TemplateError` if one is not UTF-8."""
        return [utf8(values.get(name, ""), name) for name in self.names]

    def __repr__(self) -> str:
        return f"Statement({self.text!r})"


def utf8(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TemplateError(f"the value of ${{{name}}} is not UTF-8") from None
    return value


def _mark(dialect: str, number: int) -> str:
    if dialect == POSTGRESQL:
        return f"${number}"
    return "%s" if dialect == FORMAT else "?"


def _check_quotes(template: Template) -> None:
    closing = ""
    for name, text in zip(template.names, template.texts[:-1], strict=True):
        closing = _open_after(text, closing)
        if closing:
            raise TemplateError(
                f"${{{name}}} stands in quotes or a comment of the statement; leave the quotes out, a placeholder is a "
                "parameter"
            )


def _open_after(text: str, closing: str) -> str:
    """What ends the quotes or comment that are open behind a text, of which `closing` ends those open before it."""
    at = 0
    while at < len(text):
        if closing:
            if text[at] == "\\" and closing in _QUOTES:
                at += 2
                continue
            if text.startswith(closing, at):
                at += len(closing)
                closing = ""
                continue
        elif text[at] in _QUOTES:
            closing = text[at]
        else:
            closing = next((end for begin, end in _COMMENT_ENDS.items() if text.startswith(begin, at)), "")
        at += 1
    return closing
