"""The configuration language: HOCON text to values that know their file and line.

The dialect is the one that EMQX 5 reads. Names, types, units and defaults of settings are in `config`.
"""

from heliograph.hocon.document import parse_file, parse_text
from heliograph.hocon.environment import Override, apply_environment, apply_overrides, environment_overrides
from heliograph.hocon.errors import HoconError, Position
from heliograph.hocon.files import Disk, Files, MemoryFiles
from heliograph.hocon.limits import Limits
from heliograph.hocon.values import Node, Plain, Scalar, scalar_json, to_json, to_plain

__all__ = [
    "Disk",
    "Files",
    "HoconError",
    "Limits",
    "MemoryFiles",
    "Node",
    "Override",
    "Plain",
    "Position",
    "Scalar",
    "apply_environment",
    "apply_overrides",
    "environment_overrides",
    "parse_file",
    "parse_text",
    "scalar_json",
    "to_json",
    "to_plain",
]
