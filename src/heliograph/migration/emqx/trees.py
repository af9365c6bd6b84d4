"""Trees of a configuration, taken apart: values by path, and trees with one value less or another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.merging import list_index
from heliograph.hocon.values import Node
from heliograph.settings.reading import child_of

KeyPath = tuple[str, ...]


def value_at(tree: Node, path: Sequence[str]) -> Node | None:
    """The value at a path, where numbers from 1 are elements of lists; None for none."""
    found: Node | None = tree
    for name in path:
        found = None if found is None else child_of(found, name)
    return found


def there(tree: Node, path: Sequence[str]) -> KeyPath:
    """As much of a path as leads to a value."""
    count = next((n for n in range(len(path), 0, -1) if value_at(tree, path[:n]) is not None), 0)
    return tuple(path[:count])


def without(tree: Node, path: Sequence[str]) -> Node:
    """The tree without the value at a path that is there."""
    return _edited(tree, path, None)


def with_value(tree: Node, path: Sequence[str], node: Node) -> Node:
    """The tree with another value at a path, whose groups are made where there are none."""
    return _edited(tree, path, node)


def made(value: object, position: SourcePosition) -> Node:
    """A value that stands in no file."""
    if isinstance(value, dict):
        return Node({name: made(each, position) for name, each in value.items()}, position)
    if isinstance(value, list | tuple):
        return Node([made(each, position) for each in value], position)
    assert isinstance(value, str | int | float | None)
    return Node(value, position)


def every_leaf(tree: Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Node]]:
    """Each value that is no object or list of objects, with its path."""
    items = tree.value if isinstance(tree.value, list) else None
    if isinstance(tree.value, dict) and tree.value:
        for name, child in tree.value.items():
            yield from every_leaf(child, (*path, name))
    elif items and any(isinstance(item.value, dict) for item in items):
        for number, item in enumerate(items, 1):
            yield from every_leaf(item, (*path, str(number)))
    else:
        yield path, tree


def _edited(tree: Node, path: Sequence[str], node: Node | None) -> Node:
    name, *below = path
    items = tree.value if isinstance(tree.value, list) else []
    index = (list_index(name) or 0) - 1
    if 0 <= index < len(items):
        replaced = _edited(items[index], below, node) if below else node
        kept = [replaced] if replaced is not None else []
        return Node([*items[:index], *kept, *items[index + 1 :]], tree.position, tree.source)
    fields = dict(tree.value) if isinstance(tree.value, dict) else {}
    if below:
        fields[name] = _edited(fields.get(name, Node({}, tree.position)), below, node)
    elif node is None:
        fields.pop(name, None)
    else:
        fields[name] = node
    return Node(fields, tree.position, tree.source)
