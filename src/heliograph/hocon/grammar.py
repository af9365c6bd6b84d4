"""Tokens to the tree of one document, by the LALR grammar in `grammar.lark`.

The parser is built on first use: a broker that starts without a file and without overrides never loads the library.
"""

from functools import cache
from typing import TYPE_CHECKING, Final

from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.limits import ParsingLimits
from heliograph.hocon.scanner import KEY, KEYWORD, NUMBER, QUOTED, TRIPLE, UNIT, WORD, Token, scan
from heliograph.hocon.syntax import Expression, Object

if TYPE_CHECKING:
    from heliograph.hocon.lalr import Parser

# What each group of terminals is for a reader, in the order in which a message lists them.
_EXPECTED: Final = (
    ("KEY", "a key followed by '=', ':' or '{'"),
    ("EQUALS", "'=' or ':'"),
    ("QUOTED", "a text in quotes"),
    ("WORD", "a word"),
    ("NUMBER", "a number, true, false or null"),
    ("REFERENCE", "a substitution"),
    ("LBRACE", "'{'"),
    ("LBRACKET", "'['"),
    ("COMMA", "a comma"),
    ("RBRACE", "'}'"),
    ("RBRACKET", "']'"),
    ("REQUIRED", 'required("...")'),
    ("$END", "the end"),
)

# Tokens that often stand where they do not fit because a text was not quoted.
_TEXT_LIKE: Final = frozenset({WORD, QUOTED, TRIPLE, UNIT, NUMBER, KEYWORD})


@cache
def _parser() -> "Parser":
    # Imported here, not above: a broker that starts without a file never needs the grammar library.
    from heliograph.hocon.lalr import Parser

    return Parser()


def parse_document(text: str, name: str, limits: ParsingLimits, before: int = 0) -> tuple[Object, int]:
    """Read one whole document; files that it includes are not opened.

    Args:
        before: Tokens of the texts that include it and of those that they included before.

    Returns:
        Its tree, and how many tokens it has.

    Raises:
        HoconError: At the first lexical error, or else at the first token that does not fit.
    """
    tokens = scan(text, name, limits, before=before)
    tree = _parse(tokens, name, "document")
    assert isinstance(tree, Object)
    tree.position = SourcePosition(name, 1)
    return tree, len(tokens)


def parse_lone_value(text: str, name: str, limits: ParsingLimits) -> Expression:
    """Read the value of a field, as an environment variable holds it; raises `HoconError`."""
    return _parse(scan(text, name, limits, numbered=False), name, "lone_value")


def _parse(tokens: list[Token], name: str, start: str) -> Expression:
    from heliograph.hocon.lalr import MisfitError

    try:
        return _parser().parse(tokens, start)
    except MisfitError as misfit:
        last = tokens[-1].position if tokens else SourcePosition(name, 1)
        raise _syntax_error(misfit.token, misfit.expected, last) from None


def _syntax_error(token: Token | None, terminals: frozenset[str], last: SourcePosition) -> HoconError:
    expected = _list_expected(terminals)
    if token is None:
        return HoconError.at(last, f"the text ends too early: expected {expected}")
    advice = ""
    if token.type == KEY and KEY not in terminals:
        advice = "; a text right before '=', ':' or '{' is a key"
    elif token.type in _TEXT_LIKE:
        advice = "; put a text in double quotes if it holds blanks or starts with a digit"
    return HoconError.at(token.position, f"{_show(token.text)} does not fit here: expected {expected}{advice}")


def _list_expected(terminals: frozenset[str]) -> str:
    words = [text for terminal, text in _EXPECTED if terminal in terminals]
    if "QUOTED" in terminals and "WORD" in terminals:
        words.remove("a word")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _show(text: str) -> str:
    first = text.split("\n", 1)[0]
    shortened = first if len(first) <= 40 else first[:37] + "..."
    return shortened if shortened.startswith('"') else f"'{shortened}'"
