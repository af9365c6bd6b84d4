"""How large modules, classes and functions may become before they are split."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from architecture.syntax import ROOT, SOURCES, modules, nodes
from support.cases import cases

TREES: Final = ("src", "benchmarks", "scripts")
LINES_OF_A_MODULE: Final = 600
LINES_OF_A_FUNCTION: Final = 70
METHODS_OF_A_CLASS: Final = 40

# What is larger, with the reason why splitting it would read worse. An entry that is no longer needed fails too.
LARGER_MODULES: Final[dict[str, str]] = {}
LARGER_FUNCTIONS: Final = {
    "src/heliograph/broker/counters.py __init__": "one line for each counter: attributes of mypyc are no table",
    "src/heliograph/broker/counters.py snapshot": "one line for each counter: attributes of mypyc are no table",
    "src/heliograph/management/api/integration.py add_integration_routes": "a closure and a line for each route",
}
LARGER_CLASSES: Final[dict[str, str]] = {}


@cases("tree", TREES)
def test_a_module_is_read_in_one_sitting(tree: str) -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules(ROOT / tree)}
    allowed = {name for name in LARGER_MODULES if name.startswith(f"{tree}/")}
    assert _above(LINES_OF_A_MODULE, lengths) == allowed


def test_a_class_has_one_task() -> None:
    counts = {
        f"{path.relative_to(ROOT)} {node.name}": sum(isinstance(each, _FUNCTIONS) for each in node.body)
        for path, node in _nodes(ast.ClassDef)
    }
    assert _above(METHODS_OF_A_CLASS, counts) == set(LARGER_CLASSES)


def test_a_function_is_seen_at_once() -> None:
    lengths = {
        f"{path.relative_to(ROOT)} {node.name}": _lines_of(node) for kind in _FUNCTIONS for path, node in _nodes(kind)
    }
    assert _above(LINES_OF_A_FUNCTION, lengths) == set(LARGER_FUNCTIONS)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _above(limit: int, sizes: Mapping[str, int]) -> set[str]:
    return {name for name, size in sizes.items() if size > limit}


def _nodes(kind: type) -> Iterator[tuple[Path, ast.ClassDef | ast.FunctionDef]]:
    for path in modules(SOURCES):
        for node in nodes(path):
            if isinstance(node, kind):
                yield path, node  # type: ignore[misc]  # mypy does not join the kinds


def _lines_of(function: ast.FunctionDef | ast.ClassDef) -> int:
    """The lines of its body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body and body[-1].end_lineno else 0
