"""The text of a rule becomes its tree, or is refused with the place and what was expected there.

The grammar is in `grammar.lark`. `heliograph.rules.tree_builder` makes the tree of what the grammar finds.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Final, cast

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.tree import Place, Select, Statement
from heliograph.rules.tree_builder import RuleRefusal, tree_builder

TEXT_MAX: Final = 65_536  # a broker makes rules beside its clients
_KEYWORDS: Final = frozenset(
    {"SELECT", "FROM", "WHERE", "AS", "AND", "OR", "NOT", "IN", "CASE", "WHEN", "THEN", "ELSE", "END"}
    | {"FOREACH", "DO", "INCASE", "IF", "ELSIF"}
)
_LOWER_CASE_WORDS: Final = frozenset({"div", "mod", "true", "false"})

# What a value can begin with; a state that allows a string allows all of these.
_VALUE_STARTS: Final = frozenset(
    {"STRING", "INTEGER", "FLOAT", "TRUE", "FALSE", "RANGE", "NAME", "QUOTED", "BRACKET", "OPEN"}
    | {"PLUS", "MINUS", "DIV", "MOD", "NOT", "CASE"}
)
_OPERATORS: Final = frozenset({"PLUS", "MINUS", "SLASH", "DIV", "MOD", "COMPARISON", "IN", "NOT", "AND", "OR"})
_WORDS: Final = {
    "COMPARISON": "a comparison",
    "NAME": "a name",
    "QUOTED": "a name",
    "STRING": "a string",
    "INTEGER": "an integer",
    "RANGE": "a range such as [1..3]",
    "OPEN": "'('",
    "CLOSE": "')'",
    "BRACKET": "'['",
    "BRACKET_END": "']'",
    "COMMA": "','",
    "DOT": "'.'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "STAR": "'*'",
    "SLASH": "'/'",
    "DIV": "div",
    "MOD": "mod",
    "$END": "the end of the rule",
}
_WRITTEN_KEYWORDS: Final = (
    *("SELECT", "FOREACH", "DO", "INCASE", "FROM", "WHERE"),
    *("AS", "NOT", "CASE", "WHEN", "THEN", "ELSE", "END"),
)


def parse_rule(text: str) -> Statement:
    return _parsed(text, "start", "SELECT or FOREACH")


def parse_check(text: str) -> Select:
    """Parse the SQL of a validation's check: SELECT without FROM, since it looks at the message that is published."""
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


def explain_unexpected(error: UnexpectedInput, text: str) -> tuple[str, Place]:
    if isinstance(error, UnexpectedCharacters):
        offset = error.pos_in_stream or 0
        return _explain_character(text, offset), Place(offset, offset + 1, error.line, error.column)
    assert isinstance(error, UnexpectedToken)
    token = error.token
    if token.type == "$END":
        return f"the rule ends too early; expected {_expected(error)}", _end_of(text)
    start, end = token.start_pos, token.end_pos
    assert start is not None
    assert end is not None
    place = Place(start, end, error.line, error.column)
    return f"unexpected {_describe(token)}; {_hint(token, text) or 'expected ' + _expected(error)}", place


def _end_of(text: str) -> Place:
    end = len(text.rstrip())
    line_start = text.rfind("\n", 0, end) + 1
    return Place(end, end, text.count("\n", 0, end) + 1, end - line_start + 1)


def _explain_character(text: str, offset: int) -> str:
    character = text[offset]
    if character in "'\"":
        kind = "string" if character == "'" else "quoted name"
        return f"the {kind} that begins here has no closing {character}"
    hints = {
        ";": "a rule ends without ';'",
        "#": "a comment begins with --",
        "_": 'a name begins with a letter; write "_..." in double quotes',
        ".": "a number needs a digit before its point",
        "!": "not equal is written != or <>",
        "{": "strings stand in single quotes, paths are written without braces",
        "`": "names with special characters stand in double quotes",
    }
    hint = hints.get(character)
    if hint is None and not character.isascii():
        hint = "outside of strings and quoted names only ASCII letters are allowed"
    return f"unexpected {character!r}" + (f"; {hint}" if hint else "")


def _describe(token: Token) -> str:
    if token.type in ("STRING", "QUOTED"):
        return f"{'string' if token.type == 'STRING' else 'quoted name'} {_shortened(token)}"
    if token.type in ("INTEGER", "FLOAT"):
        return f"number {_shortened(token)}"
    if token.type == "NAME":
        return f"name {_shortened(str(token))}"
    return f"{str(token)!r}" if not token.isalpha() else f"{token.upper() if token.type in _KEYWORDS else token}"


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _hint(token: Token, text: str) -> str | None:
    start = token.start_pos or 0
    if text.startswith("--", start):
        return "a comment must end with a line break"
    if text[:start].rstrip(" \t\r\n").endswith("."):
        if token.type == "FLOAT":
            return f"write the steps as strings, .'{token.partition('.')[0]}'.'{token.partition('.')[2]}'"
        if token.isalpha():
            return f"{token} is a word of the language; write the step as a string, .'{token}'"
        return "after the point of a path comes a name, an integer or a string"
    if token.type == "COMPARISON" and start and text[start - 1] in "=<>!":
        return f"{text[start - 1]}{token} is no comparison; there are = != <> < > <= >= and =~"
    if token.type == "COMPARISON" and any(character in "=<>" for character in text[:start]):
        return "comparisons do not chain; join them with AND"
    return None


def _expected(error: UnexpectedToken) -> str:
    accepted = set(error.accepts or error.expected or ())
    words: list[str] = []
    if "STRING" in accepted and "FLOAT" in accepted:
        accepted -= _VALUE_STARTS
        words.append("a value")
    # The parser may have closed the inner expressions already, so that of many possible operators it names a few.
    if accepted & _OPERATORS:
        accepted -= _OPERATORS | {"STAR"}
        words.append("an operator")
    # These can follow any path, so naming them explains nothing.
    if len(accepted) + len(words) > 3:
        accepted -= {"RANGE", "BRACKET", "OPEN", "DOT", "NAME", "QUOTED"}
    words += [word for word in _WRITTEN_KEYWORDS if word in accepted]
    words += _in_words(accepted - set(_WRITTEN_KEYWORDS))
    return _alternatives(words)


def _in_words(terminals: Iterable[str]) -> list[str]:
    return sorted({_WORDS.get(name, name) for name in terminals})


def _alternatives(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
