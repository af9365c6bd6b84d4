"""Steps into maps and arrays: reading what a path leads to, and building what `AS path` describes.

Nothing here changes a value in place: a decoded payload is shared by every rule that looks into it.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import decode_json
from heliograph.rules.tree import Index, Key, Path, Step
from heliograph.rules.values import UNDEFINED, Value, describe

Lookup: TypeAlias = Callable[[str], Value]
"""Finds a variable where a path begins."""


def _read_path(path: Path, lookup: Lookup) -> Value:
    """Follow a path from its variable; indexes that are paths themselves begin at the same place."""
    return read_steps(lookup(path.root), path.steps, lookup)


def read_steps(value: Value, steps: Sequence[Step], lookup: Lookup) -> Value:
    """Follow steps from a value; what is not there is undefined."""
    for step in steps:
        if isinstance(step, Key):
            value = read_key(value, step.name)
        elif isinstance(step, Index):
            value = _read_index(value, step.position)
        else:
            value = _read_index(value, _read_path(step.path, lookup))
        if value is UNDEFINED:
            break
    return value


def read_key(value: Value, name: str) -> Value:
    """One step into a map, or into a string that is the JSON text of a map."""
    if isinstance(value, str | bytes):
        try:
            value = decode_json(value)
        except EvaluationFault:
            return UNDEFINED
    return value.get(name, UNDEFINED) if isinstance(value, dict) else UNDEFINED


def _read_index(value: Value, position: Value) -> Value:
    """One step into an array: 1 is the first element, -1 the last."""
    if not isinstance(value, list) or type(position) is not int:
        return UNDEFINED
    offset = _offset(position, len(value))
    return UNDEFINED if offset is None else value[offset]


def read_slice(value: Value, first: int, last: int) -> list[Value]:
    """The elements from `first` to `last`, both included; negative ends count from the end."""
    if not isinstance(value, list):
        raise EvaluationFault(f"a range of elements needs an array, not {describe(value)}")
    if first == 0 or last == 0:
        raise EvaluationFault("a range of elements cannot begin or end at 0; the first element is 1")
    begin = first if first > 0 else len(value) + 1 + first
    end = last if last > 0 else len(value) + 1 + last
    if end < begin:
        raise EvaluationFault(f"the range [{first}..{last}] of an array of {len(value)} ends before it starts")
    return value[max(begin, 1) - 1 : max(end, 0)]


_RANGE_LENGTH_MAX: Final = 1_000_000


def range_values(first: int, last: int) -> list[Value]:
    """The integers from `first` to `last`, both included."""
    if last < first:
        raise EvaluationFault(f"the range [{first}..{last}] ends before it starts")
    if last - first >= _RANGE_LENGTH_MAX:
        raise EvaluationFault(f"the range [{first}..{last}] has more than {_RANGE_LENGTH_MAX:,} elements")
    return list(range(first, last + 1))


def put(target: Value, steps: Sequence[Step], value: Value, lookup: Lookup) -> Value:
    """Return `target` with `value` where the steps lead.

    Missing levels are made, a value of another kind in the way is replaced, other keys and elements are kept.
    """
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, Key):
        kept = target if isinstance(target, dict) else {}
        return {**kept, step.name: put(kept.get(step.name, UNDEFINED), rest, value, lookup)}
    if not isinstance(target, list):
        return [put(UNDEFINED, rest, value, lookup)]
    position = step.position if isinstance(step, Index) else _read_path(step.path, lookup)
    if position == 0 and type(position) is int:
        element = put(UNDEFINED, rest, value, lookup)
        behind_end = isinstance(step, Index) and step.behind_end
        return [*target, element] if behind_end else [element, *target]
    offset = _offset(position, len(target)) if type(position) is int else None
    if offset is None:
        return target
    return [*target[:offset], put(target[offset], rest, value, lookup), *target[offset + 1 :]]


def _offset(position: int, length: int) -> int | None:
    """Where in a Python list the element at a 1-based position lies, or None outside of it."""
    if 0 < position <= length:
        return position - 1
    return length + position if -length <= position < 0 else None


def written_path(path: Path) -> str:
    return path.root + "".join(_written_step(step) for step in path.steps)


def _written_step(step: Step) -> str:
    if isinstance(step, Key):
        return f".{step.name}" if step.name.isidentifier() else f".'{step.name}'"
    return f"[{step.position}]" if isinstance(step, Index) else f"[{written_path(step.path)}]"
