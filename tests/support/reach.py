"""What an object keeps alive: how tests see that nothing is left behind or grows, whatever it is called within."""

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Final, TypeVar

T = TypeVar("T")

_NOT_OWNED: Final = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)


def reachable(root: object, kind: type[T], *, within: str = "") -> Iterator[T]:
    """Every object of a kind that an object holds, directly or through others; each once.

    Args:
        root: Where the search begins.
        kind: The type of what is looked for; subtypes count.
        within: Objects of classes from modules that begin like this are looked into, and containers of Python; what
            other objects hold is theirs. Empty for the module of the root's class.
    """
    within = within or type(root).__module__
    seen = {id(root)}
    waiting = [root]
    while waiting:
        for found in gc.get_referents(waiting.pop()):
            if id(found) in seen or isinstance(found, _NOT_OWNED):
                continue
            seen.add(id(found))
            if isinstance(found, kind):
                yield found
            if type(found).__module__.startswith(("builtins", "collections", within)):
                waiting.append(found)


def count(root: object, kind: type[object], *, within: str = "") -> int:
    """How many objects of a kind an object holds; see `reachable`."""
    return sum(1 for _ in reachable(root, kind, within=within))
