"""The reference of the functions, made from their definitions; a test keeps `docs/rules.md` equal to it."""

from itertools import groupby
from typing import Final

from heliograph.rules.functions import FUNCTIONS, Function

BEGIN: Final = "<!-- functions: begin -->"
END: Final = "<!-- functions: end -->"

_RESULTS: Final = {
    "N": "number",
    "I": "integer",
    "F": "float",
    "S": "string",
    "B": "boolean",
    "A": "array",
    "M": "map",
    "V": "any",
}


def function_reference() -> str:
    """All functions as Markdown tables, one for each family."""
    families = groupby(FUNCTIONS.values(), key=lambda function: function.family)
    return "\n\n".join(_family(title, list(functions)) for title, functions in families)


def _family(title: str, functions: list[Function]) -> str:
    rows = [_row(function) for function in functions]
    return "\n".join([f"### {title}", "", "| function | result | meaning |", "| --- | --- | --- |", *rows])


def _row(function: Function) -> str:
    summary = function.summary.replace("|", "\\|")
    return f"| `{function.name}({function.signature})` | {_RESULTS[function.result]} | {summary} |"


def put_reference_into(page: str) -> str:
    """Return a page with the current reference between its two markers."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{function_reference()}\n\n{END}{tail}"
