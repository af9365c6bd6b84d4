"""From a bound document to its value: substitutions, concatenations and the merging of definitions.

A substitution means the final value of its path, wherever that is defined, and is evaluated when it is first needed.
What it may not use is a definition that leads back to a substitution still being evaluated: such a definition is passed
over and the other definitions of the path count. A field that extends itself (`path = ${path}":/opt"`, `list += x`)
uses what is defined before it.

How passed-over definitions are kept out of the memory: substitutions being evaluated form a stack, and each remembers
the lowest one that anything above it ran into (Tarjan's low link). A value is remembered for others only if nothing was
run into, because otherwise it depends on where the evaluation started: in `x = ${y}, y = p, y = ${x}q`, the `${y}` is p
and the final y is pq, whatever the order of the three.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from heliograph.hocon.definitions import (
    Entry,
    Members,
    appends,
    end_of_run,
    entries_of,
    extends_itself,
    is_list,
    last_replacing,
    pieces_from_last,
    replaces,
    united,
)
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.limits import ParsingLimits
from heliograph.hocon.merging import edits_list, merge_nodes
from heliograph.hocon.syntax import Array, Concatenation, Definition, Expression, Object, Reference, Scalar, Scope
from heliograph.hocon.values import Node
from heliograph.hocon.walking import Walk, run_walk

# Evaluation steps per definition that no ordinary document comes near.
_STEPS_PER_NODE: Final = 64


# Entries of a list or object that are copied in the time of one step.
_COPIES_PER_STEP: Final = 8


# Weight of the values that a text can write, per character.
_WEIGHT_PER_CHARACTER: Final = 16
_SHOWN_MAX: Final = 100  # substitutions that one message names; more than a file of people has
_CHARACTERS_MAX: Final = 200  # of one of them


class Missing(enum.Enum):
    """Why there is no value."""

    NOTHING = enum.auto()  # only optional substitutions without a value: the field is not set
    BLOCKED = enum.auto()  # every definition leads back to a substitution that is being evaluated
    UNDEFINED = enum.auto()  # no definition at all


Outcome: TypeAlias = Node | Missing
NOTHING: Final = Missing.NOTHING
BLOCKED: Final = Missing.BLOCKED
UNDEFINED: Final = Missing.UNDEFINED


class Evaluation:
    """Computes the value of one bound document; used once."""

    def __init__(
        self, root: Object, references: list[Reference], nodes: int, text_length: int, limits: ParsingLimits
    ) -> None:
        self._root = root
        self._references = references
        self._budget = Budget(limits, nodes, text_length)
        self._outcomes: dict[Reference, Outcome] = {}
        self._in_cycles: dict[Reference, Outcome] = {}
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
            raise unresolved_error([each for each in self._references if each in self._unresolved], self._unresolved)
        # An error of a substitution comes again where it stands, unless it only existed on the way round a cycle.
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
        if not self._active and reference in self._in_cycles:
            return self._in_cycles[reference]
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
        if lowest > index:
            self._outcomes[reference] = outcome
        elif not self._active:
            self._in_cycles[reference] = outcome
        return outcome

    def _target(self, reference: Reference) -> Walk[Outcome]:
        assert reference.scope is not None
        if reference.own is not None:
            earlier: Outcome = yield self._path(reference.scope, reference.path, reference.own)
            if earlier is not UNDEFINED or reference.optional:
                return earlier
        key = (reference.scope, reference.path)
        known = self._paths.get(key)
        if known is not None:
            return known
        outcome: Outcome = yield self._path(
            reference.scope, reference.path, None, without_start=reference.own is not None
        )
        if self._lowest[-1] == len(self._lowest) and outcome is not BLOCKED:
            self._paths[key] = outcome
        return outcome

    def _path(
        self, scope: Scope, path: tuple[str, ...], before: int | None, *, without_start: bool = False
    ) -> Walk[Outcome]:
        """Final value of a path, or its value before the definition with the sequence number `before`.

        Args:
            before: The first definition that does not count.
            without_start: The first definition asks and has nothing to extend: if every other one extends it, all of
                them lead back to it, and trying them would take a time that doubles with each.
        """
        entries: Sequence[Entry] = [Definition(scope.root, 0, scope.root.position)]
        blocked = False
        for segment in path:
            objects: list[Members]
            objects, passed_over = yield self._objects(entries)
            blocked = blocked or passed_over
            entries = list(entries_of(objects, segment, before))
        if not entries:
            return BLOCKED if blocked else UNDEFINED
        if without_start and all(map(extends_itself, entries)):
            return BLOCKED
        outcome: Outcome = yield self._fold(entries, whole=False)
        return outcome

    def _objects(self, entries: Sequence[Entry]) -> Walk[tuple[list[Members], bool]]:
        """The objects that merge into the value of some entries, first to last; and whether any was passed over."""
        objects: list[Members] = []
        blocked = over_list = False
        for piece in pieces_from_last(entries):
            found: Expression | Outcome = (yield self._reference(piece)) if isinstance(piece, Reference) else piece
            if isinstance(found, Missing):
                blocked = blocked or found is BLOCKED
            elif isinstance(found, Object):
                objects.append(found.fields)
            elif isinstance(found, Node) and isinstance(found.value, dict):
                objects.append(found.value)
            else:
                over_list = is_list(found)
                break
        while over_list and objects and edits_list(objects[-1]):
            objects.pop()
        return objects[::-1], blocked

    # Values

    def _value(self, value: Expression, position: SourcePosition, whole: bool) -> Walk[Outcome]:
        self._budget.spend(1, position)
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

    def _array(self, array: Array, position: SourcePosition, whole: bool) -> Walk[Outcome]:
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
        return self._budget.check(Node(items, position))

    def _object(self, fields: Mapping[str, list[Definition]], position: SourcePosition, whole: bool) -> Walk[Outcome]:
        content: dict[str, Node] = {}
        for key, definitions in fields.items():
            only = definitions[0]
            outcome: Outcome
            if len(definitions) == 1 and isinstance(only.value, Scalar) and not only.append:
                outcome = Node(only.value.value, only.position)
            else:
                outcome = yield self._fold(definitions, whole)
            if isinstance(outcome, Node):
                content[key] = outcome
            elif outcome is BLOCKED:
                return BLOCKED
        return self._budget.check(Node(content, position))

    def _concatenation(self, value: Concatenation, position: SourcePosition, whole: bool) -> Walk[Outcome]:
        nodes: list[Node] = []
        for part in value.parts:
            outcome: Outcome = yield self._value(part, part.position, whole)
            if isinstance(outcome, Node):
                nodes.append(outcome)
            elif outcome is BLOCKED:
                return BLOCKED
        if not nodes:
            return NOTHING
        if len(nodes) == 1:
            return nodes[0].moved(position)
        outcome = NOTHING
        if all(isinstance(node.value, dict) for node in nodes):
            outcome = yield self._merged(nodes, position)
        else:
            outcome = self._joined(nodes, position)
        return outcome

    def _joined(self, nodes: list[Node], position: SourcePosition) -> Outcome:
        """Strings or lists side by side as one."""
        weight = sum(node.weight for node in nodes)
        self._budget.check_weight(weight, position)
        if all(isinstance(node.value, list) for node in nodes):
            items = [item for node in nodes if isinstance(node.value, list) for item in node.value]
            self._budget.copy(len(items), position)
            return self._budget.check(Node(items, position, None, weight, max(node.depth for node in nodes)))
        if all(isinstance(node.value, str) for node in nodes):
            return Node("".join(node.value for node in nodes if isinstance(node.value, str)), position)
        kinds = " and ".join(dict.fromkeys(node.kind for node in nodes))
        message = f"cannot put together {kinds}: only strings, only lists or only objects stand side by side"
        if any(not isinstance(node.value, str | list | dict) for node in nodes):
            message += "; quote a number where it is defined to use it in a text"
        return self._refused(position, message)

    def _merged(self, nodes: list[Node], position: SourcePosition) -> Walk[Outcome]:
        merged = nodes[0]
        for node in nodes[1:]:
            merged = yield self._merge(merged, node)
        return self._budget.check(Node(merged.value, position, None, merged.weight, merged.depth))

    # Definitions

    def _fold(self, entries: Sequence[Entry], whole: bool) -> Walk[Outcome]:
        """Merge the definitions of one path in the order of the document.

        Args:
            whole: Also evaluate what a later definition replaces, so that its errors are found.
        """
        start = 0 if whole else last_replacing(entries)
        current: Node | None = None
        blocked = False
        if start:
            first: Outcome = yield self._entry(entries[start], whole)
            if isinstance(first, Missing):
                # It leads back to where the evaluation came from, so what it would replace counts after all.
                blocked = first is BLOCKED
                first = yield self._fold(entries[:start], whole)
            current = first if isinstance(first, Node) else None
            start += 1
        while start < len(entries):
            if appends(entries[start]):
                end = end_of_run(entries, start)
                current = yield self._appended(current, entries[start:end], whole)
            else:
                outcome: Outcome
                outcome, end = yield self._next(entries, start, current, whole)
                blocked = blocked or outcome is BLOCKED
                if isinstance(outcome, Node):
                    current = outcome
            start = end
        if current is not None:
            return current
        return BLOCKED if blocked else NOTHING

    def _next(
        self, entries: Sequence[Entry], start: int, current: Node | None, whole: bool
    ) -> Walk[tuple[Outcome, int]]:
        """The value after the next definitions, and the index of the one after them."""
        outcome: Outcome = BLOCKED
        end = start + 1
        # Keys of different definitions edit a list one after the other; objects merge faster all at once.
        if current is None or not isinstance(current.value, list):
            end = end_of_run(entries, start)
            if end - start > 1:
                outcome = yield self._object(*united(entries[start:end]), whole)
        if outcome is BLOCKED:
            # One definition, or several, some of which lead back to where the evaluation came from.
            end = start + 1
            outcome = yield self._entry(entries[start], whole)
        if isinstance(outcome, Node) and current is not None and not replaces(entries[start]):
            outcome = yield self._merge(current, outcome)
        return outcome, end

    def _entry(self, entry: Entry, whole: bool) -> Walk[Outcome]:
        if isinstance(entry, Node):
            return entry
        outcome: Outcome = yield self._value(entry.value, entry.position, whole)
        return outcome

    def _appended(self, base: Node | None, entries: Sequence[Entry], whole: bool) -> Walk[Node | None]:
        """What `+=` makes of the value defined before it."""
        items: list[Node] = []
        if base is not None:
            if not isinstance(base.value, list):
                message = (
                    f"+= adds an element to a list, but the value so far is {base.kind} "
                    f"(from {base.source or base.position}): use = to replace it"
                )
                self._refused(entries[0].position, message)
                return base
            items += base.value
        for entry in entries:
            outcome: Outcome = yield self._entry(entry, whole)
            if isinstance(outcome, Node):
                items.append(outcome)
        return self._budget.check(Node(items, entries[-1].position))

    def _merge(self, base: Node, top: Node) -> Walk[Node]:
        self._budget.spend(1, top.position)
        if not isinstance(top.value, dict) or not isinstance(base.value, dict | list):
            return top
        self._budget.copy(len(base.value) + len(top.value), top.position)
        try:
            merged: Node = yield merge_nodes(base, top)
        except HoconError as error:
            self._refused(SourcePosition(error.file, error.line), error.message)
            return base
        return self._budget.check(merged)

    # Errors

    def _refused(self, position: SourcePosition, message: str) -> Outcome:
        """Note an error that does not end the evaluation: errors of another kind come before it."""
        self._errors.append(HoconError.at(position, message))
        return NOTHING


class Budget:
    """Counts down the steps of one evaluation and checks the values that it makes.

    Args:
        limits: Caps on what substitutions add; what the texts themselves write is always allowed.
    """

    def __init__(self, limits: ParsingLimits, nodes: int, text_length: int) -> None:
        self._limits = limits
        self._weight_allowed = limits.expansion + _WEIGHT_PER_CHARACTER * text_length
        self._steps_left = limits.steps + _STEPS_PER_NODE * nodes

    def spend(self, steps: int, position: SourcePosition) -> None:
        """Raises `HoconError` if none are left."""
        self._steps_left -= steps
        if self._steps_left < 0:
            raise HoconError.at(
                position,
                f"substitutions need more than {self._limits.steps} evaluation steps, which is the limit: "
                "they refer to one another in too many ways",
            )

    def copy(self, entries: int, position: SourcePosition) -> None:
        self.spend(entries // _COPIES_PER_STEP, position)

    def check(self, node: Node) -> Node:
        """Give back a value that is within the limits; else raise `HoconError`."""
        self.check_weight(node.weight, node.position)
        if node.depth > self._limits.depth:
            raise HoconError.at(
                node.position, f"the value is nested more than {self._limits.depth} levels deep, which is the limit"
            )
        return node

    def check_weight(self, weight: int, position: SourcePosition) -> None:
        """Raises `HoconError` before a value is made that would be too large."""
        if weight > self._weight_allowed:
            raise HoconError.at(
                position, f"substitutions expand to more than {self._weight_allowed} bytes, which is the limit"
            )


def unresolved_error(references: Sequence[Reference], reasons: Mapping[Reference, str]) -> HoconError:
    """In the order of the text, with the place of the first one."""
    shown = [f"{_show(each)} ({each.position}) {reasons[each]}" for each in references[:_SHOWN_MAX]]
    more = f"; and {len(references) - _SHOWN_MAX} more" if len(references) > _SHOWN_MAX else ""
    return HoconError.at(
        references[0].position,
        f"unresolved substitution: {'; '.join(shown)}{more}; define it, or write ${{?path}} where it may be absent",
    )


def _show(reference: Reference) -> str:
    path = ".".join(reference.path)
    shown = reference.written if reference.written == f"${{{path}}}" else f"{reference.written}, here {path},"
    return shown if len(shown) <= _CHARACTERS_MAX else shown[: _CHARACTERS_MAX - 3] + "..."
