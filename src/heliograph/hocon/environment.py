"""Environment variables as the last layer over a document: `HELIOGRAPH_LISTENERS__TCP__DEFAULT__BIND=1884`.

The variables are applied to the finished value, sorted by name; a substitution never sees them. Which paths exist is
not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.hocon.binding import Binder, OpenFile
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.evaluation import Evaluation
from heliograph.hocon.files import Files, LocalFiles
from heliograph.hocon.grammar import parse_lone_value
from heliograph.hocon.limits import DEFAULT_LIMITS, ParsingLimits
from heliograph.hocon.merging import checked_index, list_index
from heliograph.hocon.values import Node

DEFAULT_PREFIX = "HELIOGRAPH_"


@dataclass(frozen=True, slots=True)
class Override:
    """A value from outside the files: a variable, or the option that stands for one; its path and its text."""

    name: str
    path: tuple[str, ...]
    text: str


def environment_overrides(environ: Mapping[str, str], prefix: str = DEFAULT_PREFIX) -> list[Override]:
    """The variables that override something, in the order in which they apply.

    The rest of a name after the prefix is taken in lower case and split at double underscores.
    """
    overrides = []
    for name in sorted(environ):
        if name.startswith(prefix):
            path = tuple(part for part in name.removeprefix(prefix).lower().split("__") if part)
            if path:
                overrides.append(Override(name, path, environ[name]))
    return overrides


def apply_environment(
    node: Node, environ: Mapping[str, str], prefix: str = DEFAULT_PREFIX, *, files: Files | None = None
) -> Node:
    """Raises `HoconError`, whose file is the variable, for an element outside a list."""
    return apply_overrides(node, environment_overrides(environ, prefix), files=files)


def apply_overrides(
    node: Node, overrides: Iterable[Override], *, files: Files | None = None, limits: ParsingLimits = DEFAULT_LIMITS
) -> Node:
    """Each, in order, replaces the whole value at its path. Raises `HoconError`, whose file is its name."""
    for override in overrides:
        if len(override.path) > limits.depth:
            raise HoconError(
                override.name, None, f"its path has more than {limits.depth} parts, which is the limit for nesting"
            )
        value = read_value(override.text, override.name, files=files, limits=limits)
        if value is not None:
            node = set_value(node, override.path, value, SourcePosition(override.name))
    return node


def read_value(
    text: str, name: str, *, files: Files | None = None, limits: ParsingLimits = DEFAULT_LIMITS
) -> Node | None:
    """The value of the text in HOCON, or the text itself; None for an optional substitution, which sets nothing."""
    position = SourcePosition(name)
    if not text:
        return Node("", position)
    try:
        text.encode("utf-8")
        value = parse_lone_value(text, name, limits)
        binder = Binder(files or LocalFiles(), (), limits)
        binder.count_text(len(text), 0)
        root = binder.bind_value(value, OpenFile(name, "", None))
        node = Evaluation(root, binder.references, binder.nodes, binder.text_length, limits).evaluate()
    except (HoconError, UnicodeEncodeError):
        return Node(text, position)
    fields = node.value
    assert isinstance(fields, dict)
    return fields.get("")


def set_value(root: Node, path: Sequence[str], value: Node, position: SourcePosition | None = None) -> Node:
    """A tree with the value at the path; the containers on the way are new, everything else is shared.

    Args:
        path: Keys, and indexes from 1 where there is a list (or nothing, which starts one).
        position: Of created containers; the value's own by default.

    Raises:
        HoconError: The path names an element outside a list.
    """
    position = position or value.position
    parents: list[tuple[Node | None, str]] = []
    current: Node | None = root
    for name in path:
        parents.append((current, name))
        current = _child(current, name)
    replaced = value
    for parent, name in reversed(parents):
        replaced = _with_child(parent, name, replaced, position, is_root=parent is root)
    return replaced


def _child(parent: Node | None, name: str) -> Node | None:
    if parent is None:
        return None
    if isinstance(parent.value, dict):
        return parent.value.get(name)
    index = list_index(name)
    if isinstance(parent.value, list) and index is not None and 1 <= index <= len(parent.value):
        return parent.value[index - 1]
    return None


def _with_child(parent: Node | None, name: str, child: Node, position: SourcePosition, *, is_root: bool) -> Node:
    content = parent.value if parent is not None else {}
    is_index = list_index(name) is not None
    if is_index and not is_root and (isinstance(content, list) or content == {}):
        items = list(content) if isinstance(content, list) else []
        index = checked_index(name, len(items), Node(None, position))
        items[index - 1 : index] = [child]
        return Node(items, parent.position if parent is not None and parent.value else position)
    fields = dict(content) if isinstance(content, dict) else {}
    fields[name] = child
    keeps_position = parent is not None and isinstance(content, dict)
    return Node(fields, parent.position if parent is not None and keeps_position else position)
