"""How large things may become before they are two things: modules, classes, functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

from architecture.syntax import ROOT, SOURCES, modules, nodes
from support.cases import cases

TREES = ("src", "benchmarks", "scripts")
LINES_OF_A_MODULE = 400
LINES_OF_A_FUNCTION = 60
METHODS_OF_A_CLASS = 25

# A line for each counter: mypyc's attributes are no table.
LISTS = {"src/heliograph/broker/counters.py __init__", "src/heliograph/broker/counters.py snapshot"}


@cases("tree", TREES)
def test_a_module_is_read_in_one_sitting(tree: str) -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in modules(ROOT / tree)}
    assert {path: count for path, count in lengths.items() if count > LINES_OF_A_MODULE} == {}


def test_a_class_has_one_task() -> None:
    counts = {
        f"{path.relative_to(ROOT)} {node.name}": sum(isinstance(each, _FUNCTIONS) for each in node.body)
        for path, node in _nodes(ast.ClassDef)
    }
    assert {name: count for name, count in counts.items() if count > METHODS_OF_A_CLASS} == {}


def test_a_function_is_seen_at_once() -> None:
    lengths = {
        f"{path.relative_to(ROOT)} {node.name}": _lines_of(node) for kind in _FUNCTIONS for path, node in _nodes(kind)
    }
    assert {name for name, count in lengths.items() if count > LINES_OF_A_FUNCTION} == LISTS


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _nodes(kind: type) -> Iterator[tuple[Path, ast.ClassDef | ast.FunctionDef]]:
    for path in modules(SOURCES):
        for node in nodes(path):
            if isinstance(node, kind):
                yield path, node  # type: ignore[misc]  # mypy does not join the kinds


def _lines_of(function: ast.FunctionDef | ast.ClassDef) -> int:
    """The lines of its body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body and body[-1].end_lineno else 0
