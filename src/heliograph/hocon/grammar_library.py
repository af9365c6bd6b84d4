"""The grammar library, loaded without `regex`.

The library loads `regex` where that is installed, for grammars that ask for it. None of ours does, and it takes half
the time of loading both, at every start.
"""

import sys

_is_here = "regex" in sys.modules
if not _is_here:
    sys.modules["regex"] = None  # type: ignore[assignment]  # what Python calls a module that is not to be found
try:
    from lark import Lark, Transformer, UnexpectedToken
    from lark.lexer import Lexer, LexerState
finally:
    if not _is_here:
        del sys.modules["regex"]

__all__ = ["Lark", "Lexer", "LexerState", "Transformer", "UnexpectedToken"]
