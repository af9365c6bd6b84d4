"""Templates of actions: text in which `${a.b}` stands for a value of a row, compiled once.

As EMQX renders them: what is not there becomes `undefined`, maps and arrays become JSON, `${.}` is the whole row and
`${$}` a dollar sign. A step into text looks into the JSON that it holds. Beyond EMQX, `[2]` takes an element and
quotes surround names of any characters: `${items[1].id}`, `${pub_props.'Content-Type'}`. What looks otherwise is text.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import orjson

from heliograph.mqtt.template import split_template
from heliograph.rules.json_text import encode_json, encode_row, text_of
from heliograph.rules.paths import read_steps
from heliograph.rules.tree import Index, Key, Step
from heliograph.rules.values import UNDEFINED, Value, bytes_of

Row: TypeAlias = Mapping[str, Value]
Render: TypeAlias = Callable[[Row], bytes]
Read: TypeAlias = Callable[[Row], Value]

_NAME: Final = r"(?:[A-Za-z0-9_]+|'[^'}]+')"
_PATH: Final = rf"{_NAME}(?:\.{_NAME}|\[-?[0-9]+\])*"
_PLACEHOLDER: Final = re.compile(rf"\.?(?P<path>{_PATH})|\.")
_DOLLAR: Final = "$"
_STEP: Final = re.compile(rf"(?P<name>{_NAME})|\[(?P<index>-?[0-9]+)\]")


def compile_template(text: str) -> Render:
    parts = list(_parts(text))
    if not parts:
        return lambda row: b""
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        one, other = parts
        return lambda row: one(row) + other(row)
    return lambda row: b"".join([part(row) for part in parts])


def fixed_text(text: str) -> bytes | None:
    """What a template without placeholders says always; None for one with placeholders."""
    found = any(name not in (None, _DOLLAR) for _, name in split_template(text, _is_placeholder))
    return None if found else compile_template(text)({})


def compile_value(text: str) -> Read:
    match = _PLACEHOLDER.fullmatch(text[2:-1]) if text.startswith("${") and text.endswith("}") else None
    if match is None:
        render = compile_template(text)
        return lambda row: render(row).decode("utf-8", "replace")
    return dict if match["path"] is None else _reader(match["path"])


def row_text(row: Row) -> bytes:
    try:
        return orjson.dumps(row)
    except orjson.JSONEncodeError:
        return encode_json(dict(row)).encode()


def stored_text(row: Row) -> bytes:
    """The same for an action, which has strings that are not UTF-8 too."""
    try:
        return orjson.dumps(row)
    except orjson.JSONEncodeError:
        return encode_row(dict(row)).encode()


def _parts(text: str) -> "list[Render]":
    parts: list[Render] = []
    literal = ""
    for before, name in split_template(text, _is_placeholder):
        literal += before + (_DOLLAR if name == _DOLLAR else "")
        match = None if name is None else _PLACEHOLDER.fullmatch(name)
        if match is None:
            continue
        if literal:
            parts.append(_constant(literal))
            literal = ""
        parts.append(row_text if match["path"] is None else _renderer(match["path"]))
    return [*parts, _constant(literal)] if literal else parts


def _is_placeholder(name: str) -> bool:
    return name == _DOLLAR or _PLACEHOLDER.fullmatch(name) is not None


def _constant(text: str) -> Render:
    data = text.encode()
    return lambda row: data


def _renderer(path: str) -> Render:
    read = _reader(path)

    def render(row: Row) -> bytes:
        value = read(row)
        if type(value) is str:
            return value.encode()
        return bytes_of(text_of(value))

    return render


def _reader(path: str) -> Read:
    root, *steps = _steps(path)
    assert isinstance(root, Key)  # so the expression has it
    name = root.name
    if not steps:
        return lambda row: row.get(name, UNDEFINED)
    return lambda row: read_steps(row.get(name, UNDEFINED), steps, lambda variable: UNDEFINED)


def _steps(path: str) -> list[Step]:
    found: list[Step] = []
    for match in _STEP.finditer(path):
        name = match["name"]
        found.append(Index(int(match["index"]), False) if name is None else Key(name.strip("'")))
    return found
