"""The text of a rule becomes its tree, or is refused with the place and what was expected there.

The grammar is in `grammar.lark`. `heliograph.rules.tree_builder` makes the tree of what the grammar finds, and
`heliograph.rules.syntax_errors` finds the words for texts that the grammar refuses.
"""

from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Final, cast

from lark import Lark, Token
from lark.exceptions import UnexpectedInput

from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.syntax_errors import explain_unexpected
from heliograph.rules.tree import Place, Select, Statement
from heliograph.rules.tree_builder import RuleRefusal, tree_builder

TEXT_MAX: Final = 65_536  # a broker makes rules beside its clients
_KEYWORDS: Final = frozenset(
    {"SELECT", "FROM", "WHERE", "AS", "AND", "OR", "NOT", "IN", "CASE", "WHEN", "THEN", "ELSE", "END"}
    | {"FOREACH", "DO", "INCASE", "IF", "ELSIF"}
)
_LOWER_CASE_WORDS: Final = frozenset({"div", "mod", "true", "false"})


def parse_rule(text: str) -> Statement:
    """Parse a rule.

    Raises:
        RuleSyntaxError: The text is not a rule.
    """
    return _parsed(text, "start", "SELECT or FOREACH")


def parse_check(text: str) -> Select:
    """Parse the SQL of a validation's check: SELECT without FROM, since it looks at the message that is published.

    Raises:
        RuleSyntaxError: The text is not that.
    """
    statement = _parsed(text, "check", "SELECT")
    assert isinstance(statement, Select)  # the grammar knows no other check
    return statement


def _parsed(text: str, start: str, beginning: str) -> Statement:
    if len(text) > TEXT_MAX:
        problem = f"the rule has {len(text):,} characters; at most {TEXT_MAX:,} are valid"
        raise RuleSyntaxError(problem, text[:80], Place(0, 0, 1, 1))
    try:
        # Surrogates cannot come from UTF-8 text; only undecodable bytes of a command line or file look like that.
        text.encode()
    except UnicodeEncodeError as error:
        raise RuleSyntaxError("the rule is not valid UTF-8 text", text, _place_at(text, error.start)) from None
    if not text.strip():
        raise RuleSyntaxError(f"the rule is empty; it must begin with {beginning}", text, Place(0, 0, 1, 1))
    try:
        # The tree builder works inside of the parser, which then returns what `select` or `foreach` returned.
        statement = cast(Statement, _parser(start).parse(text))
    except UnexpectedInput as error:
        problem, place = explain_unexpected(error, text)
        raise RuleSyntaxError(problem, text, place) from None
    except RuleRefusal as refusal:
        raise RuleSyntaxError(refusal.problem, text, refusal.place) from None
    return replace(statement, text=text)


def _place_at(text: str, offset: int) -> Place:
    """The place of one character."""
    line_start = text.rfind("\n", 0, offset) + 1
    return Place(offset, offset + 1, text.count("\n", 0, offset) + 1, offset - line_start + 1)


@cache
def _parser(start: str) -> Lark:
    """The parser for this process; building it takes tens of milliseconds, using it less than one.

    One for each beginning: with two of them a parser knows less well what could have followed where it stopped.
    """
    grammar = files("heliograph.rules").joinpath("grammar.lark").read_text(encoding="utf-8")
    # The basic lexer, not the contextual one: in this language a token does not depend on where it stands, so that
    # `a.1.100` holds the number 1.100 and is refused.
    return Lark(
        grammar,
        parser="lalr",
        start=start,
        lexer="basic",
        transformer=tree_builder(),
        lexer_callbacks={"NAME": _name_or_keyword},
    )


def _name_or_keyword(token: Token) -> Token:
    word = str(token)
    if word in _LOWER_CASE_WORDS or word.upper() in _KEYWORDS:
        token.type = word.upper()
    return token
