"""One value over another: objects merge, an object of integer keys edits a list, everything else replaces."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from heliograph.hocon.errors import HoconError
from heliograph.hocon.values import Node
from heliograph.hocon.walking import Walk

_INDEX: Final = re.compile(r"[+-]?[0-9]+")
# Longer texts are no index of any list that fits in memory, and int() refuses very long ones.
_INDEX_LENGTH: Final = 18


def list_index(key: str) -> int | None:
    """None for a key that is no integer."""
    if _INDEX.fullmatch(key) is None:
        return None
    sign, digits = (key[0], key[1:]) if key[0] in "+-" else ("+", key)
    digits = digits.lstrip("0") or "0"
    magnitude = int(digits) if len(digits) <= _INDEX_LENGTH else 10**_INDEX_LENGTH
    return -magnitude if sign == "-" else magnitude


def edits_list(keys: Collection[str]) -> bool:
    """Whether an object with these keys edits the list below it instead of replacing it."""
    return all(_INDEX.fullmatch(key) for key in keys)


def merge_nodes(base: Node, top: Node) -> Walk[Node]:
    """Put `top` over `base`; `HoconError` at the line of an index that is out of range."""
    if not isinstance(top.value, dict):
        return top
    if isinstance(base.value, list):
        if not edits_list(top.value):
            return top
        edited: Node = yield _edited(base, base.value, top.value)
        return edited
    if not isinstance(base.value, dict):
        return top
    content = dict(base.value)
    weight, depth = base.weight, max(base.depth, top.depth)
    for key, child in top.value.items():
        old = content.get(key)
        merged: Node = child if old is None or not isinstance(child.value, dict) else (yield merge_nodes(old, child))
        content[key] = merged
        weight += merged.weight + (len(key) if old is None else -old.weight)
        depth = max(depth, merged.depth + 1)
    return Node(content, top.position, None, weight, depth)


def _edited(base: Node, items: list[Node], edits: dict[str, Node]) -> Walk[Node]:
    edited = list(items)
    weight, depth = base.weight, base.depth
    merged: Node
    for key, edit in sorted(edits.items(), key=lambda item: list_index(item[0]) or 0):
        index = checked_index(key, len(edited), edit)
        if index > len(edited):
            merged = edit
            edited.append(edit)
        else:
            merged = yield merge_nodes(edited[index - 1], edit)
            weight -= edited[index - 1].weight
            edited[index - 1] = merged
        weight += merged.weight
        depth = max(depth, merged.depth + 1)
    return Node(edited, base.position, base.source, weight, depth)


def checked_index(key: str, length: int, edit: Node) -> int:
    """The list must have that element, or it is the next one; else `HoconError` at the position of the edit."""
    index = list_index(key)
    if index is None or not 1 <= index <= length + 1:
        raise HoconError.at(
            edit.position,
            f"index {key} is outside the list, which has {length} element{'s' if length != 1 else ''}: "
            f"valid are 1 to {length + 1} (one more than it has appends)",
        )
    return index
