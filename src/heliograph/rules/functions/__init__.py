"""The functions of the rule language, one module per family; each has one definition for both engines.

`FUNCTIONS` is the table of all of them: the evaluator looks names up in it, and the reference in `docs/rules.md` is
made from it.
"""

from typing import Final

from heliograph.rules.functions import (
    arrays,
    bits,
    compression,
    conversion,
    encoding,
    formatting,
    jq,
    kinds,
    maps,
    mathematics,
    message,
    others,
    patterns,
    schemas,
    strings,
    time,
    time_formats,
)
from heliograph.rules.functions.definition import Function

_FAMILIES: Final = (
    mathematics,
    kinds,
    conversion,
    strings,
    patterns,
    formatting,
    maps,
    arrays,
    bits,
    encoding,
    compression,
    time,
    time_formats,
    jq,
    message,
    schemas,
    others,
)

FUNCTIONS: Final[dict[str, Function]] = {
    function.name: function for module in _FAMILIES for function in module.FAMILY.functions
}

__all__ = ["FUNCTIONS", "Function"]
