"""Templates of actions, which name values of a row, as templates of sinks, in which a row is the JSON in one column."""

import re
from typing import Final

from heliograph.mqtt.template import split_template

ROW: Final = "payload"
"""The column of the pipeline's rows that holds a row of a rule."""
WHOLE: Final = f"${{{ROW}}}"
"""The template of the whole row."""

_INDEX: Final = re.compile(r"\[(\d+)\]")


def of_row(template: str) -> str:
    """A template over the column: `${a.b}`, or `${.a.b}` as EMQX has it too, is `${payload.a.b}`; `${.}` is the row."""
    return "".join(text + ("" if name is None else _placeholder(name)) for text, name in _parts(template))


def names_whole_row(template: str) -> bool:
    """Whether a template asks for the whole row."""
    return any(name is not None and not _path(name) for _, name in _parts(template))


def _parts(template: str) -> list[tuple[str, str | None]]:
    return split_template(template, lambda name: True)


def _placeholder(name: str) -> str:
    path = _path(name)
    return f"${{{ROW}.{path}}}" if path else WHOLE


def _path(name: str) -> str:
    return _INDEX.sub(r".\1", name.strip()).strip(".")
