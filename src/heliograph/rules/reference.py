"""The reference of the functions, made from their definitions; a test keeps `docs/rules.md` equal to it."""

from itertools import groupby
from typing import Final

from heliograph.rules.functions import FUNCTIONS, Function

RESULTS: Final = {
    "N": "number",
    "I": "integer",
    "F": "float",
    "S": "string",
    "B": "boolean",
    "A": "array",
    "M": "map",
    "V": "any",
}
"""What functions give, by the kinds of their definitions."""


def function_reference() -> str:
    families = groupby(FUNCTIONS.values(), key=lambda function: function.family)
    return "\n\n".join(_family(title, list(functions)) for title, functions in families)


def _family(title: str, functions: list[Function]) -> str:
    rows = [_row(function) for function in functions]
    return "\n".join([f"### {title}", "", "| function | result | meaning |", "| --- | --- | --- |", *rows])


def _row(function: Function) -> str:
    summary = function.summary.replace("|", "\\|")
    return f"| `{function.name}({function.signature})` | {RESULTS[function.result]} | {summary} |"
