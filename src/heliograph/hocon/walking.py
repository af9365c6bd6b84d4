"""Running walks over trees without recursion: a document may be deeper than the interpreter's stack.

A walk is a generator that yields the walks it needs the results of and returns its own result.
"""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")
Walk: TypeAlias = Generator[Any, Any, Result]


def run_walk(walk: Walk[Result]) -> Result:
    stack: list[Walk[Any]] = [walk]
    result: Any = None
    while stack:
        try:
            needed = stack[-1].send(result)
        except StopIteration as finished:
            stack.pop()
            result = finished.value
        else:
            stack.append(needed)
            result = None
    final: Result = result
    return final
