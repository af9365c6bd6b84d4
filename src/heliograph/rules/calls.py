"""What is wrong with the calls of a rule although it parses: a function that there is not fails for every message."""

from collections.abc import Iterator
from difflib import get_close_matches

from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.output import functions_called
from heliograph.rules.tree import Statement


def call_faults(rule: Statement) -> Iterator[str]:
    for name in functions_called(rule):
        if name not in FUNCTIONS:
            near = get_close_matches(name, FUNCTIONS, 1)
            yield f"it calls {name}, but there is no such function" + (f"; did you mean {near[0]}?" if near else "")
