"""A tree as HOCON text for people: one setting a line, objects in braces, keys without quotes where they may be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from heliograph.hocon.values import Node, scalar_json, to_json

_BARE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|[1-9][0-9]*")
_INDENT: Final = 2
_LINE_LENGTH: Final = 100


def to_hocon(tree: Node) -> str:
    """No line at all for an empty object; raises `ValueError` for a tree that is not an object."""
    if not isinstance(tree.value, dict):
        raise ValueError("a document is an object")
    return "".join(f"{line}\n" for line in _lines(tree.value))


def key_text(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name)


def _lines(root: dict[str, Node]) -> Iterator[str]:
    # Each entry: the fields of an open object that are left to write.
    stack: list[Iterator[tuple[str, Node]]] = [iter(root.items())]
    while stack:
        following = next(stack[-1], None)
        if following is None:
            stack.pop()
            if stack:
                yield " " * _INDENT * (len(stack) - 1) + "}"
            continue
        name, node = following
        margin = " " * _INDENT * (len(stack) - 1)
        if isinstance(node.value, dict) and node.value:
            yield f"{margin}{key_text(name)} {{"
            stack.append(iter(node.value.items()))
        else:
            yield f"{margin}{key_text(name)} = {_value(node, margin)}"


def _value(node: Node, margin: str) -> str:
    if not isinstance(node.value, list | dict):
        return scalar_json(node.value)
    line = to_json(node, None)
    return line if len(line) <= _LINE_LENGTH else to_json(node).replace("\n", f"\n{margin}")
