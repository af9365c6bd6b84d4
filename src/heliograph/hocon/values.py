"""What reading a document gives: a tree of values that know where they come from, and two ways to write it out.

No function here recurses: a tree may be deeper than the interpreter's stack.
"""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TypeAlias

from heliograph.hocon.errors import SourcePosition

Scalar: TypeAlias = bool | int | float | str | None
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
Content: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"

# What one value and its place in a container cost, beside the characters of a text; see Limits.expansion.
_VALUE_WEIGHT = 16


class Node:
    """One value of a document; never changed once built, and shared wherever a substitution repeats it.

    Attributes:
        value: None, bool, int, float, str, a list of nodes or a dict of nodes.
        position: The key that set the value, or for an array element the element itself.
        source: For a value that a substitution brought: where it is written; else None.
        weight: Size of the value written out in full (16 for each value in it, 1 for each character).
        depth: Levels of containers, 0 for a scalar.
    """

    __slots__ = ("depth", "position", "source", "value", "weight")

    def __init__(
        self,
        value: Content,
        position: SourcePosition,
        source: SourcePosition | None = None,
        weight: int = 0,
        depth: int = -1,
    ) -> None:
        self.value = value
        self.position = position
        self.source = source
        self.weight = weight or measure_weight(value)
        self.depth = depth if depth >= 0 else measure_depth(value)

    @property
    def kind(self) -> str:
        return describe_kind(self.value)

    def at(self, position: SourcePosition) -> "Node":
        """As found through a substitution that stands at `position`."""
        return Node(self.value, position, self.source or self.position, self.weight, self.depth)

    def moved(self, position: SourcePosition) -> "Node":
        """As that of the field or element at `position`."""
        return Node(self.value, position, self.source, self.weight, self.depth)

    def __repr__(self) -> str:
        return f"Node({self.kind} at {self.position})"


def describe_kind(value: Content) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def measure_weight(value: Content) -> int:
    if isinstance(value, str):
        return _VALUE_WEIGHT + len(value)
    if isinstance(value, list):
        return _VALUE_WEIGHT + sum(item.weight for item in value)
    if isinstance(value, dict):
        return _VALUE_WEIGHT + sum(child.weight + len(key) for key, child in value.items())
    return _VALUE_WEIGHT


def measure_depth(value: Content) -> int:
    if isinstance(value, list):
        return 1 + max((item.depth for item in value), default=0)
    if isinstance(value, dict):
        return 1 + max((child.depth for child in value.values()), default=0)
    return 0


def to_plain(node: Node) -> Plain:
    """Without positions."""
    holder: list[Plain] = []
    # Each entry: a node and the container that waits for it, with its key there (None appends).
    pending: list[tuple[Node, list[Plain] | dict[str, Plain], str]] = [(node, holder, "")]
    while pending:
        current, target, key = pending.pop()
        value = current.value
        plain: Plain
        if isinstance(value, dict):
            plain = dict.fromkeys(value)
            pending += [(child, plain, name) for name, child in value.items()]
        elif isinstance(value, list):
            plain = []
            pending += [(item, plain, "") for item in reversed(value)]
        else:
            plain = value
        if isinstance(target, dict):
            target[key] = plain
        else:
            target.append(plain)
    return holder[0]


def scalar_json(value: Scalar) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        # str() refuses integers of more than 4300 digits; Decimal writes any.
        return str(value) if -(1 << 10000) < value < 1 << 10000 else f"{Decimal(value):f}"
    return json.dumps(value)


def to_json(node: Node, indent: int | None = 2, write_scalar: Callable[[Scalar], str] = scalar_json) -> str:
    """Integers of any size, floats with a fraction, keys in the order of the document; on one line without `indent`."""
    return "".join(_json_pieces(node, indent, write_scalar))


def _json_pieces(node: Node, indent: int | None, write_scalar: Callable[[Scalar], str]) -> Iterator[str]:
    comma = "," if indent is not None else ", "
    # Each entry: the closing bracket and what is left to write of an open container.
    stack: list[tuple[str, Iterator[tuple[str | None, Node]]]] = []
    label = ""
    while True:
        value = node.value
        entries: Iterator[tuple[str | None, Node]] | None = None
        if isinstance(value, dict):
            entries = iter(value.items())
            brackets = "{}"
        elif isinstance(value, list):
            entries = ((None, item) for item in value)
            brackets = "[]"
        if entries is None or not value:
            yield label + (write_scalar(value) if not isinstance(value, list | dict) else brackets)
        else:
            yield label + brackets[0]
            stack.append((brackets[1], entries))
        following = None
        while stack and following is None:
            closing, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                yield _line_break(indent, len(stack)) + closing
        if following is None:
            return
        key, node = following
        opened = entries is not None and bool(value)
        label = ("" if opened else comma) + _line_break(indent, len(stack))
        if key is not None:
            label += json.dumps(key) + ": "


def _line_break(indent: int | None, level: int) -> str:
    return "" if indent is None else "\n" + " " * (indent * level)
