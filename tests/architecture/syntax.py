"""The syntax of our sources, which several checks look through: reading it takes longer than any of them."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src" / "heliograph"


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a module, from the outside in."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def modules(folder: Path) -> list[Path]:
    """The modules below a folder."""
    return sorted(folder.rglob("*.py"))
