"""From a bound document to its value: substitutions, concatenations and the merging of definitions.

A substitution means the final value of its path, wherever that is defined, and is evaluated when it is first needed.
What it may not use is a definition that leads back to a substitution still being evaluated: such a definition is passed
over and the other definitions of the path count. A field that extends itself (`path = ${path}":/opt"`, `list += x`)
uses what is defined before it.

How a passed-over definition is kept out of the memory: substitutions being evaluated form a stack, and each remembers
the lowest one that anything below it ran into (Tarjan's low link). A value is remembered only if that is none below the
substitution itself, because otherwise it depends on where the evaluation happened to start.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from heliograph.hocon.errors import HoconError, Position
from heliograph.hocon.limits import Limits
from heliograph.hocon.merging import edits_list, merge_nodes
from heliograph.hocon.syntax import (
    Array,
    Concatenation,
    Definition,
    Expression,
    Object,
    Reference,
    Scalar,
    Scope,
)
from heliograph.hocon.values import Node
from heliograph.hocon.walking import Walk, run_walk


class Missing(enum.Enum):
    """Why there is no value."""

    NOTHING = enum.auto()  # only optional substitutions without a value: the field is not set
    BLOCKED = enum.auto()  # every definition leads back to a substitution that is being evaluated
    UNDEFINED = enum.auto()  # no definition at all


Outcome: TypeAlias = Node | Missing
_Members: TypeAlias = Mapping[str, list[Definition]] | Mapping[str, Node]
Entry: TypeAlias = Definition | Node  # a definition, or a field of an object that is already evaluated

NOTHING: Final = Missing.NOTHING
BLOCKED: Final = Missing.BLOCKED
UNDEFINED: Final = Missing.UNDEFINED

# Evaluation steps per definition that no ordinary document comes near.
_STEPS_PER_NODE: Final = 64
# Weight of the values that a text can write, per character.
_WEIGHT_PER_CHARACTER: Final = 16


class Evaluation:
    """Computes the value of one bound document; used once.

    Args:
        root: The bound document.
        references: Every substitution in it, in the order of the text.
        nodes: Number of definitions and list elements in it.
        text_length: Characters of its texts.
        limits: Caps on expansion, steps and depth.
    """

    def __init__(self, root: Object, references: list[Reference], nodes: int, text_length: int, limits: Limits) -> None:
        self._root = root
        self._references = references
        self._limits = limits
        self._weight_allowed = limits.expansion + _WEIGHT_PER_CHARACTER * text_length
        self._steps_left = limits.steps + _STEPS_PER_NODE * nodes
        self._outcomes: dict[Reference, Outcome] = {}
        self._paths: dict[tuple[Scope, tuple[str, ...]], Outcome] = {}
        self._active: dict[Reference, int] = {}
        self._lowest: list[int] = []
        self._unresolved: dict[Reference, str] = {}
        self._errors: list[HoconError] = []

    def evaluate(self) -> Node:
        """Compute the value.

        Raises:
            HoconError: Unresolved substitutions, all in one message; or else the first concatenation or list edit that
                cannot be; or a limit.
        """
        for reference in self._references:
            run_walk(self._reference(reference))
        if self._unresolved:
            raise self._unresolved_error()
        # What substitutions ran into is met again where it stands, unless it only existed on the way round a cycle.
        self._errors.clear()
        node = run_walk(self._object(self._root.fields, self._root.position, whole=True))
        if self._errors:
            raise min(self._errors, key=lambda error: (error.file != self._errors[0].file, error.line or 0))
        assert isinstance(node, Node)
        return node

    # Substitutions

    def _reference(self, reference: Reference) -> Walk[Outcome]:
        known = self._outcomes.get(reference)
        if known is not None:
            return known
        if reference in self._active:
            self._lowest[-1] = min(self._lowest[-1], self._active[reference])
            return BLOCKED
        index = len(self._lowest)
        self._active[reference] = index
        self._lowest.append(len(self._lowest) + 1)
        outcome: Outcome = yield self._target(reference)
        del self._active[reference]
        lowest = self._lowest.pop()
        if lowest < index:
            self._lowest[-1] = min(self._lowest[-1], lowest)
            return BLOCKED if outcome is UNDEFINED else outcome
        if outcome is UNDEFINED or outcome is BLOCKED:
            if not reference.optional:
                self._unresolved[reference] = (
                    "is not defined anywhere" if outcome is UNDEFINED else "is defined only by way of itself"
                )
            outcome = NOTHING
        self._outcomes[reference] = outcome
        return outcome

    def _target(self, reference: Reference) -> Walk[Outcome]:
        assert reference.scope is not None
        if reference.own is not None:
            earlier: Outcome = yield self._path(reference.scope, reference.path, reference.own)
            if reference.append or earlier not in (UNDEFINED, BLOCKED):
                return earlier
        key = (reference.scope, reference.path)
        known = self._paths.get(key)
        if known is not None:
            return known
        outcome: Outcome = yield self._path(reference.scope, reference.path, None)
        if self._lowest[-1] == len(self._lowest) and outcome is not BLOCKED:
            self._paths[key] = outcome
        return outcome

    def _path(self, scope: Scope, path: tuple[str, ...], before: int | None) -> Walk[Outcome]:
        """Final value of a path, or its value before the definition with the sequence number `before`."""
        entries: list[Entry] = [Definition(scope.root, 0, scope.root.position)]
        blocked = False
        for segment in path:
            objects: list[_Members]
            objects, passed_over = yield self._objects(entries)
            blocked = blocked or passed_over
            entries = list(_entries_of(objects, segment, before))
        if not entries:
            return BLOCKED if blocked else UNDEFINED
        outcome: Outcome = yield self._fold(entries, whole=False)
        return outcome

    def _objects(self, entries: list[Entry]) -> Walk[tuple[list[_Members], bool]]:
        """The objects that merge into the value of some entries, first to last; and whether any was passed over."""
        objects: list[_Members] = []
        blocked = over_list = False
        for piece in _pieces_from_last(entries):
            found: Expression | Outcome = (yield self._reference(piece)) if isinstance(piece, Reference) else piece
            if isinstance(found, Missing):
                blocked = blocked or found is BLOCKED
            elif isinstance(found, Object):
                objects.append(found.fields)
            elif isinstance(found, Node) and isinstance(found.value, dict):
                objects.append(found.value)
            else:
                over_list = _is_list(found)
                break
        while over_list and objects and edits_list(objects[-1]):
            objects.pop()
        return objects[::-1], blocked

    def _unresolved_error(self) -> HoconError:
        missing = [reference for reference in self._references if reference in self._unresolved]
        reasons = [f"{_show(reference)} ({reference.position}) {self._unresolved[reference]}" for reference in missing]
        return HoconError.at(
            missing[0].position,
            f"unresolved substitution: {'; '.join(reasons)}; define it, or write ${{?path}} where it may be absent",
        )

    # Values

    def _value(self, value: Expression, position: Position, whole: bool) -> Walk[Outcome]:
        self._spend(1, position)
        if isinstance(value, Scalar):
            return Node(value.value, position)
        if isinstance(value, Reference):
            outcome: Outcome = yield self._reference(value)
            return outcome.at(position) if isinstance(outcome, Node) else outcome
        if isinstance(value, Object):
            outcome = yield self._object(value.fields, position, whole)
        elif isinstance(value, Array):
            outcome = yield self._array(value, position, whole)
        else:
            outcome = yield self._concatenation(value, position, whole)
        return outcome

    def _array(self, array: Array, position: Position, whole: bool) -> Walk[Outcome]:
        items: list[Node] = []
        for item in array.items:
            outcome: Outcome = (
                Node(item.value, item.position)
                if isinstance(item, Scalar)
                else (yield self._value(item, item.position, whole))
            )
            if isinstance(outcome, Node):
                items.append(outcome)
            elif outcome is BLOCKED:
                return BLOCKED
        return self._checked(Node(items, position))

    def _object(self, fields: Mapping[str, list[Definition]], position: Position, whole: bool) -> Walk[Outcome]:
        content: dict[str, Node] = {}
        for key, definitions in fields.items():
            value = definitions[0].value
            outcome: Outcome = (
                Node(value.value, definitions[0].position)
                if len(definitions) == 1 and isinstance(value, Scalar)
                else (yield self._fold(definitions, whole))
            )
            if isinstance(outcome, Node):
                content[key] = outcome
            elif outcome is BLOCKED:
                return BLOCKED
        return self._checked(Node(content, position))

    def _concatenation(self, value: Concatenation, position: Position, whole: bool) -> Walk[Outcome]:
        nodes: list[Node] = []
        for part in value.parts:
            outcome: Outcome = yield self._value(part, part.position, whole)
            if isinstance(outcome, Node):
                nodes.append(outcome)
            elif outcome is BLOCKED:
                return BLOCKED
        if not nodes:
            return NOTHING
        if isinstance(value.parts[0], Reference) and value.parts[0].append:
            return self._joined(nodes, position, "+=")
        if len(nodes) == 1:
            return nodes[0].at(position)
        outcome = NOTHING
        if all(isinstance(node.value, dict) for node in nodes):
            outcome = yield self._merged(nodes, position)
        else:
            outcome = self._joined(nodes, position, "concatenation")
        return outcome

    def _joined(self, nodes: list[Node], position: Position, operation: str) -> Outcome:
        """Strings or lists side by side as one."""
        weight = sum(node.weight for node in nodes)
        if weight > self._weight_allowed:
            raise self._too_large(position)
        if all(isinstance(node.value, list) for node in nodes):
            items = [item for node in nodes if isinstance(node.value, list) for item in node.value]
            self._spend(len(items), position)
            return self._checked(Node(items, position, None, weight, max(node.depth for node in nodes)))
        if all(isinstance(node.value, str) for node in nodes):
            return Node("".join(node.value for node in nodes if isinstance(node.value, str)), position)
        if operation == "+=":
            found = nodes[0]
            message = (
                f"+= adds an element to a list, but the value so far is {found.kind} "
                f"(from {found.source or found.position}): use = to replace it"
            )
        else:
            kinds = " and ".join(dict.fromkeys(node.kind for node in nodes))
            message = f"cannot put together {kinds}: only strings, only lists or only objects stand side by side"
            if any(not isinstance(node.value, str | list | dict) for node in nodes):
                message += "; quote a number where it is defined to use it in a text"
        return self._refused(position, message)

    def _merged(self, nodes: list[Node], position: Position) -> Walk[Outcome]:
        merged = nodes[0]
        for node in nodes[1:]:
            merged = yield self._merge(merged, node)
        return self._checked(Node(merged.value, position, None, merged.weight, merged.depth))

    # Definitions

    def _fold(self, entries: list[Definition] | list[Entry], whole: bool) -> Walk[Outcome]:
        """Merge the definitions of one path in the order of the document.

        Args:
            entries: The definitions, first to last.
            whole: Also evaluate what a later definition replaces, so that its errors are found.
        """
        current: Node | None = None
        blocked = False
        index = 0 if whole else _last_replacing(entries)
        if index:
            first: Outcome = yield self._entry(entries[index], whole)
            if isinstance(first, Missing):
                # It leads back to where the evaluation came from, so what it would replace counts after all.
                blocked = first is BLOCKED
                first = yield self._fold(entries[:index], whole)
            current = first if isinstance(first, Node) else None
            index += 1
        while index < len(entries):
            end = _end_of_objects(entries, index)
            outcome: Outcome = BLOCKED
            if end - index > 1 and not (current is not None and isinstance(current.value, list)):
                outcome = yield self._object(*_united(entries[index:end]), whole)
            if outcome is BLOCKED:
                # One definition, or definitions of which some lead back to where the evaluation came from.
                end = index + 1
                outcome = yield self._entry(entries[index], whole)
            index = end
            if isinstance(outcome, Node):
                current = outcome if current is None else (yield self._merge(current, outcome))
            elif outcome is BLOCKED:
                blocked = True
        if current is not None:
            return current
        return BLOCKED if blocked else NOTHING

    def _entry(self, entry: Entry, whole: bool) -> Walk[Outcome]:
        if isinstance(entry, Node):
            return entry
        outcome: Outcome = yield self._value(entry.value, entry.position, whole)
        return outcome

    def _merge(self, base: Node, top: Node) -> Walk[Node]:
        self._spend(1, top.position)
        if not isinstance(top.value, dict) or not isinstance(base.value, dict | list):
            return top
        self._spend(len(base.value) + len(top.value), top.position)
        try:
            merged: Node = yield merge_nodes(base, top)
        except HoconError as error:
            self._refused(Position(error.file, error.line), error.message)
            return base
        return self._checked(merged)

    # Limits and errors

    def _checked(self, node: Node) -> Node:
        if node.weight > self._weight_allowed:
            raise self._too_large(node.position)
        if node.depth > self._limits.depth:
            raise HoconError.at(
                node.position, f"the value is nested more than {self._limits.depth} levels deep, which is the limit"
            )
        return node

    def _too_large(self, position: Position) -> HoconError:
        return HoconError.at(
            position, f"substitutions expand to more than {self._weight_allowed} bytes, which is the limit"
        )

    def _spend(self, steps: int, position: Position) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise HoconError.at(
                position,
                f"substitutions need more than {self._limits.steps} evaluation steps, which is the limit: "
                "they refer to one another in too many ways",
            )

    def _refused(self, position: Position, message: str) -> Outcome:
        """Note an error that does not end the evaluation: errors of another kind come before it."""
        self._errors.append(HoconError.at(position, message))
        return NOTHING


def _show(reference: Reference) -> str:
    path = ".".join(reference.path)
    return reference.written if reference.written == f"${{{path}}}" else f"{reference.written}, here {path},"


def _is_list(value: Expression | Node) -> bool:
    """Whether something that is no object is a list, without evaluating it."""
    if isinstance(value, Concatenation):
        return any(isinstance(part, Array) for part in value.parts)
    if isinstance(value, Node):
        return isinstance(value.value, list)
    return isinstance(value, Array)


def _pieces_from_last(entries: list[Entry]) -> Iterator[Expression | Node]:
    """What the entries consist of, last first; a concatenation that may be of objects counts as its parts."""
    for entry in reversed(entries):
        piece: Expression | Node = entry if isinstance(entry, Node) else entry.value
        if isinstance(piece, Concatenation) and not _replaces(piece):
            yield from reversed(piece.parts)
        else:
            yield piece


def _replaces(value: Expression | Node) -> bool:
    """Whether a value replaces what is defined before it, as far as can be seen without evaluating it."""
    if isinstance(value, Node):
        return not isinstance(value.value, dict)
    if isinstance(value, Concatenation):
        return any(isinstance(part, Scalar | Array) for part in value.parts)
    return isinstance(value, Scalar | Array)


def _last_replacing(entries: list[Definition] | list[Entry]) -> int:
    for index in range(len(entries) - 1, 0, -1):
        entry = entries[index]
        if _replaces(entry if isinstance(entry, Node) else entry.value):
            return index
    return 0


def _end_of_objects(entries: list[Definition] | list[Entry], start: int) -> int:
    """End of the run of object definitions that begins at `start`."""
    end = start
    while end < len(entries):
        entry = entries[end]
        if isinstance(entry, Node) or not isinstance(entry.value, Object):
            break
        end += 1
    return end


def _united(entries: Iterable[Entry]) -> tuple[dict[str, list[Definition]], Position]:
    """Fields of object definitions under each other as those of one object: linear, where merging would copy."""
    fields: dict[str, list[Definition]] = {}
    position = Position("")
    for entry in entries:
        if isinstance(entry, Definition) and isinstance(entry.value, Object):
            position = entry.position
            for key, definitions in entry.value.fields.items():
                fields.setdefault(key, []).extend(definitions)
    return fields, position


def _entries_of(objects: list[_Members], segment: str, before: int | None) -> Iterator[Entry]:
    for members in objects:
        found = members.get(segment)
        if isinstance(found, Node):
            yield found
        elif found is not None:
            yield from (entry for entry in found if before is None or entry.sequence < before)
