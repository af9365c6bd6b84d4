"""The functions of the rule language, in families; each has one definition for both engines.

`FUNCTIONS` is the table of all of them: the evaluator looks names up in it, and the reference in `docs/rules.md` is
made from it.
"""

from typing import Final

from heliograph.rules.functions import (
    bits,
    containers,
    conversion,
    encoding,
    formatting,
    mathematics,
    others,
    patterns,
    schemas,
    strings,
    time,
    time_formats,
)
from heliograph.rules.functions.definition import Function

_FAMILIES: Final = (
    mathematics.FAMILY,
    conversion.KINDS,
    conversion.CONVERSION,
    strings.FAMILY,
    patterns.FAMILY,
    formatting.FAMILY,
    containers.MAPS,
    containers.ARRAYS,
    bits.FAMILY,
    encoding.ENCODING,
    encoding.COMPRESSION,
    time.FAMILY,
    time_formats.FAMILY,
    others.JQ,
    others.MESSAGE,
    schemas.FAMILY,
    others.OTHERS,
)

FUNCTIONS: Final[dict[str, Function]] = {
    function.name: function for family in _FAMILIES for function in family.functions
}

__all__ = ["FUNCTIONS", "Function"]
