"""The configuration language: HOCON text to values that know their file and line.

The dialect is the one that EMQX 5 reads. Names, types, units and defaults of settings are in `config`.

What is exported is imported at its first use: who needs the values only does not pay for the grammar.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heliograph.hocon.names import *

__all__ = [
    "Files",
    "HoconError",
    "LocalFiles",
    "MemoryFiles",
    "Node",
    "Override",
    "ParsingLimits",
    "Plain",
    "Scalar",
    "SourcePosition",
    "apply_environment",
    "apply_overrides",
    "environment_overrides",
    "parse_file",
    "parse_text",
    "scalar_json",
    "to_json",
    "to_plain",
]


def __getattr__(name: str) -> object:
    """A name that is exported; all of them are imported with the first."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    names = import_module("heliograph.hocon.names")
    globals().update({one: getattr(names, one) for one in __all__})
    return globals()[name]
