"""What an object keeps alive: how tests see that nothing is left behind or grows, whatever it is called within."""

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Final, TypeVar

T = TypeVar("T")

_NOT_OWNED: Final = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)

_LEAVES: Final = (int, float, bool, str, bytes, bytearray, type(None))


def reachable(root: object, kind: type[T], *, within: str = "") -> Iterator[T]:
    """Every object of a kind that an object holds, directly or through others; each once.

    Args:
        root: Where the search begins.
        kind: The type of what is looked for; subtypes count.
        within: Objects of classes from modules that begin like this are looked into, and containers of Python; what
            other objects hold is theirs. Empty for the module of the root's class.
    """
    within = within or type(root).__module__
    looks: dict[type, tuple[bool, bool]] = {}  # of each type: whether it is looked for, and looked into
    seen = {id(root)}
    waiting = [root]
    while waiting:
        for found in gc.get_referents(waiting.pop()):
            look = looks.get(type(found))
            if look is None:
                is_owned = not isinstance(found, _NOT_OWNED)
                is_within = type(found).__module__.startswith(("builtins", "collections", within))
                has_referents = type(found) not in _LEAVES
                look = looks[type(found)] = (
                    is_owned and isinstance(found, kind),
                    is_owned and is_within and has_referents,
                )
            is_wanted, is_looked_into = look
            if (is_wanted or is_looked_into) and id(found) not in seen:
                seen.add(id(found))
                if is_wanted:
                    yield found
                if is_looked_into:
                    waiting.append(found)


def count(root: object, kind: type[object], *, within: str = "") -> int:
    """How many objects of a kind an object holds; see `reachable`."""
    return sum(1 for _ in reachable(root, kind, within=within))
