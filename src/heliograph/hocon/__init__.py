"""The configuration language: HOCON text to values that know their file and line.

The dialect is the one that EMQX 5 reads. Names, types, units and defaults of settings are in `config`.
"""

from heliograph.hocon.document import parse_file, parse_text
from heliograph.hocon.environment import Override, apply_environment, apply_overrides, environment_overrides
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.files import Files, LocalFiles, MemoryFiles
from heliograph.hocon.limits import ParsingLimits
from heliograph.hocon.values import Node, Plain, Scalar, scalar_json, to_json, to_plain

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
