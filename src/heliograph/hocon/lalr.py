"""The parser made by the grammar library, and the only module that uses the library.

It knows tokens and the grammar file; what to say about a token that does not fit is `grammar`'s.
"""

import os
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final

from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.grammar_library import Lark, Lexer, LexerState, Transformer, UnexpectedToken
from heliograph.hocon.scanner import REQUIRED, Token, key_path, split_path
from heliograph.hocon.syntax import (
    Array,
    Concatenation,
    Expression,
    FieldAssignment,
    Include,
    Object,
    Reference,
    Scalar,
)

# A document without braces has no token of its own to stand at; its reader knows the name.
_UNPLACED: Final = SourcePosition("", 1)


class MisfitError(Exception):
    """A token, or the end of the text (None), that the grammar has no use for, and the terminals that would fit."""

    def __init__(self, token: Token | None, expected: frozenset[str]) -> None:
        super().__init__(token, expected)
        self.token = token
        self.expected = expected


class Parser:
    """The LALR parser with its tables; making it costs some milliseconds, so a process makes one."""

    def __init__(self) -> None:
        self._lark = Lark(
            files("heliograph.hocon").joinpath("grammar.lark").read_text(encoding="utf-8"),
            parser="lalr",
            lexer=_ScannedTokens,
            start=["document", "lone_value"],
            transformer=_SyntaxBuilder(),
            maybe_placeholders=False,
            cache=_table_cache() or False,
        )

    def parse(self, tokens: list[Token], start: str) -> Expression:
        """Build the tree of `document` or `lone_value`; raises `MisfitError` at the first token that does not fit."""
        # The library hands whatever it is given to the lexer class, which takes the finished tokens.
        text: Any = tokens
        try:
            tree: Any = self._lark.parse(text, start=start)
        except UnexpectedToken as error:
            found: object = error.token
            expected = frozenset(error.accepts or error.expected)
            raise MisfitError(found if isinstance(found, Token) else None, expected) from None
        result: Expression = tree
        return result


def _table_cache() -> str | None:
    """File for the finished tables, where Python keeps its compiled modules and under the same conditions.

    Making the tables from the grammar takes 30 ms, a third of the time from start to a read configuration. The library
    makes them again when its version, Python's or the grammar changes, or the file is not whole.
    """
    if sys.dont_write_bytecode or sys.implementation.cache_tag is None:
        return None
    file = Path(cache_from_source(__file__)).with_suffix(".tables")
    return str(file) if os.access(file.parent, os.W_OK) else None


class _ScannedTokens(Lexer):
    __future_interface__ = 1  # asks the library for the arguments that its own lexers get

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Any]:
        tokens: Any = lexer_state.text
        return iter(tokens)


class _SyntaxBuilder(Transformer[Token, Any]):
    """Makes the tree from the bottom up while the parser runs; a method per rule or alias of the grammar."""

    def bare_document(self, children: list[Any]) -> Object:
        return Object(children[0], _UNPLACED)

    def braced_document(self, children: list[Object]) -> Object:
        return children[0]

    def lone_value(self, children: list[Expression]) -> Expression:
        return children[0]

    def object(self, children: list[Any]) -> Object:
        return Object(children[1], children[0].position)

    def no_members(self, children: list[Any]) -> list[Any]:
        return children

    def as_it_is(self, children: list[Any]) -> Any:
        return children[0]

    def first(self, children: list[Any]) -> list[Any]:
        return children

    def next(self, children: list[Any]) -> Any:
        # The list belongs to this reduction alone; growing it in place keeps long documents linear.
        children[0].append(children[1])
        return children[0]

    def next_after_comma(self, children: list[Any]) -> Any:
        children[0].append(children[2])
        return children[0]

    def field(self, children: list[Any]) -> FieldAssignment:
        key, _, value = children
        return FieldAssignment(key_path(key), value, False, key.position)

    def object_field(self, children: list[Any]) -> FieldAssignment:
        key, run = children
        return FieldAssignment(key_path(key), self.concatenation([run]), False, key.position)

    def append_field(self, children: list[Any]) -> FieldAssignment:
        key, _, value = children
        return FieldAssignment(key_path(key), value, True, key.position)

    def include(self, children: list[Any]) -> Include:
        keyword, name = children
        return Include(name.value, name.type == REQUIRED, keyword.position)

    def concatenation(self, children: list[Any]) -> Expression:
        parts: list[Expression] = children[0]
        return parts[0] if len(parts) == 1 else Concatenation(parts, parts[0].position)

    def string(self, children: list[Any]) -> Scalar:
        return Scalar(children[0].value, children[0].position)

    def scalar(self, children: list[Any]) -> Scalar:
        return Scalar(children[0].value, children[0].position)

    def reference(self, children: list[Any]) -> Reference:
        token = children[0]
        optional = token.value.startswith("?")
        return Reference(token.text, split_path(token.value.removeprefix("?")), optional, token.position)

    def empty_array(self, children: list[Any]) -> Array:
        return Array([], children[0].position)

    def array(self, children: list[Any]) -> Array:
        return Array(children[1], children[0].position)
