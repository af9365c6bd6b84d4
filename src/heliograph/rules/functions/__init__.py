"""The functions of the rule language, one module per family; each has one definition for both engines.

`FUNCTIONS` is the table of all of them: the evaluator looks names up in it, and the reference in `docs/rules.md` is
made from it.
"""

from typing import Final

from heliograph.rules.functions import arrays, conversion, encoding, kinds, maps, mathematics, strings, time
from heliograph.rules.functions.definition import Function

FUNCTIONS: Final[dict[str, Function]] = {
    function.name: function
    for module in (mathematics, kinds, conversion, strings, maps, arrays, encoding, time)
    for function in module.FAMILY.functions
}

__all__ = ["FUNCTIONS", "Function"]
