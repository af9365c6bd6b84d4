"""What compiled modules may not do: mypyc accepts it, and does something else than Python."""

import ast
from pathlib import Path

from architecture.syntax import ROOT, SOURCES, nodes
from support.cases import cases


def compiled_modules() -> list[Path]:
    """The modules that are compiled."""
    named: dict[str, list[str]] = {}
    for node in ast.parse((ROOT / "scripts/compiling/sources.py").read_text()).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.AnnAssign) and isinstance(target, ast.Name) and node.value is not None:
            named[target.id] = list(ast.literal_eval(node.value))
    bench = ROOT / "bench/src/heliograph_bench"
    modules = [bench / module for module in named["BENCH_COMPILED"]]
    modules += [path for package in named["COMPILED"] for path in (SOURCES / package).glob("*.py")]
    return sorted([*modules, *(SOURCES / module for module in named["ALSO_COMPILED"])])


@cases("path", compiled_modules, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_gives_one_name_to_exceptions_of_two_kinds(path: Path) -> None:
    # The name has the type of the first; where the second is raised, a TypeError takes its place.
    for function in nodes(path):
        if isinstance(function, ast.FunctionDef):
            kinds: dict[str, set[str]] = {}
            for handler in ast.walk(function):
                if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type is not None:
                    kinds.setdefault(handler.name, set()).add(ast.unparse(handler.type))
            assert all(len(kind) == 1 for kind in kinds.values()), f"{function.name}: {kinds}"
