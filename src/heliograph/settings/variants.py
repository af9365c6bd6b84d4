"""Which of several kinds a group of settings is: the one that its words name, as `mechanism` and `backend` do."""

from __future__ import annotations

from typing import Any

from heliograph.hocon import Node
from heliograph.hocon.merging import list_index
from heliograph.settings.fields import ListOfVariants


def list_items(node: Node) -> list[Node] | None:
    """Elements of a list, or of an object whose keys are exactly 1 to n."""
    if isinstance(node.value, list):
        return node.value
    if isinstance(node.value, dict):
        by_index = {list_index(key): item for key, item in node.value.items()}
        if set(by_index) == set(range(1, len(node.value) + 1)):
            return [by_index[index] for index in range(1, len(by_index) + 1)]
    return None


def groups_of(node: Node) -> list[Node] | None:
    """The groups of a list of variants, of which one may stand without a list; None if it is neither."""
    items = list_items(node)
    return [node] if items is None and isinstance(node.value, dict) else items


def name_of(kind: ListOfVariants, node: Node) -> str:
    """The words by which a group says what it is, as far as it says them."""
    fields = node.value if isinstance(node.value, dict) else {}
    words = [fields[tag].value for tag in kind.tags if tag in fields]
    return ":".join(word for word in words if isinstance(word, str))


def model_of(kind: ListOfVariants, node: Node) -> type[Any] | None:
    """The dataclass of a group, None if it does not name one that there is."""
    return kind.model_named(name_of(kind, node))
