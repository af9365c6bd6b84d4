"""Lists of definitions of one path: which replace others, which can be taken together, where a path goes on in them.

Decided from how the definitions are written; nothing here evaluates a substitution.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.syntax import Array, Concatenation, Definition, Expression, Object, Reference, Scalar
from heliograph.hocon.values import Node

Entry: TypeAlias = Definition | Node  # a definition, or a field of an object that is already evaluated
Members: TypeAlias = Mapping[str, list[Definition]] | Mapping[str, Node]


def pieces_from_last(entries: Sequence[Entry]) -> Iterator[Expression | Node]:
    """What the entries consist of, last first; a concatenation that may be of objects counts as its parts."""
    for entry in reversed(entries):
        if isinstance(entry, Node):
            yield entry
        elif entry.append:
            yield Array([], entry.position)
        elif isinstance(entry.value, Concatenation) and not is_plain(entry.value):
            yield from reversed(entry.value.parts)
        else:
            yield entry.value


def is_plain(value: Expression) -> bool:
    """Whether a value is certainly no object, as far as can be seen without evaluating it."""
    if isinstance(value, Concatenation):
        return any(isinstance(part, Scalar | Array) for part in value.parts)
    return isinstance(value, Scalar | Array)


def replaces(entry: Entry) -> bool:
    """Or has taken those before it in by extending its own value."""
    if isinstance(entry, Node):
        return not isinstance(entry.value, dict)
    return not entry.append and (is_plain(entry.value) or extends_itself(entry))


def extends_itself(entry: Entry) -> bool:
    if isinstance(entry, Node):
        return False
    parts = entry.value.parts if isinstance(entry.value, Concatenation) else [entry.value]
    return any(isinstance(part, Reference) and part.own is not None for part in parts)


def last_replacing(entries: Sequence[Entry]) -> int:
    """Or 0."""
    for index in range(len(entries) - 1, 0, -1):
        if replaces(entries[index]):
            return index
    return 0


def appends(entry: Entry) -> bool:
    return isinstance(entry, Definition) and entry.append


def end_of_run(entries: Sequence[Entry], start: int) -> int:
    """Object definitions, or `+=`, that can be taken together."""
    end = start
    while end < len(entries):
        entry = entries[end]
        if isinstance(entry, Node) or entry.append != appends(entries[start]):
            break
        if not entry.append and not isinstance(entry.value, Object):
            break
        end += 1
    return end


def united(entries: Iterable[Entry]) -> tuple[dict[str, list[Definition]], SourcePosition]:
    """Fields of object definitions under each other as those of one object: linear, where merging would copy."""
    fields: dict[str, list[Definition]] = {}
    position = SourcePosition("")
    for entry in entries:
        if isinstance(entry, Definition) and isinstance(entry.value, Object):
            position = entry.position
            for key, definitions in entry.value.fields.items():
                fields.setdefault(key, []).extend(definitions)
    return fields, position


def entries_of(objects: list[Members], segment: str, before: int | None) -> Iterator[Entry]:
    """What the objects say about a key, first to last; only definitions before a sequence number if one is given."""
    for members in objects:
        found = members.get(segment)
        if isinstance(found, Node):
            yield found
        elif found is not None:
            yield from found if before is None else found[: bisect_left(found, before, key=_sequence)]


def _sequence(definition: Definition) -> int:
    return definition.sequence


def is_list(value: Expression | Node) -> bool:
    if isinstance(value, Concatenation):
        return any(isinstance(part, Array) for part in value.parts)
    if isinstance(value, Node):
        return isinstance(value.value, list)
    return isinstance(value, Array)
