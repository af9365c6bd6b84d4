"""The text of an expression becomes a tree of the rule language: paths, literals, lists in arguments, and calls.

    expression = name "(" [argument {"," argument}] ")" | name | "true" | "false" | number | string
    argument   = expression | "[" argument {"," argument} "]"

A string stands in single or double quotes and has no escapes. `-` and `.` are parts of names.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from heliograph.rules.errors import EvaluationFault, RuleError
from heliograph.rules.tree import Call, Expression, Key, ListLiteral, Literal, Path, Place
from heliograph.rules.values import integer_of_digits

_TOKEN: Final = re.compile(
    r"(?P<blank>[ \t\r\n]+)|(?P<name>[A-Za-z][A-Za-z0-9_.-]*)|(?P<float>[+-]?[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<integer>[+-]?[0-9]+)|(?P<string>'[^']*'|\"[^\"]*\")|(?P<mark>[()\[\],])"
)
_LEVELS_MAX: Final = 100
_TOKENS_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: Place


def parse(text: str) -> Expression:
    return _Parser(text).whole()


class VariformError(RuleError):
    code: ClassVar[str] = "variform"


class VariformSyntaxError(VariformError):
    code: ClassVar[str] = "variform_syntax"


class _Parser:
    """Reads one text from left to right; used once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0

    def whole(self) -> Expression:
        node = self._expression(0)
        token = self._next()
        if token.kind != "end":
            raise self._unexpected(token, "the end of the expression")
        return node

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _unexpected(self, token: _Token, expected: str) -> VariformSyntaxError:
        if token.kind == "end":
            return VariformSyntaxError(f"the expression ends too early; expected {expected}", self._text, token.place)
        return VariformSyntaxError(f"unexpected {token.text}; expected {expected}", self._text, token.place)

    def _expression(self, level: int) -> Expression:
        token = self._next()
        if level > _LEVELS_MAX:
            raise VariformSyntaxError(f"more than {_LEVELS_MAX} calls within one another", self._text, token.place)
        if token.kind == "name":
            return self._name(token, level)
        if token.kind == "string":
            return Literal(token.text[1:-1], token.place)
        if token.kind in ("integer", "float"):
            return Literal(self._number(token), token.place)
        raise self._unexpected(token, "a name, a function, a string or a number")

    def _name(self, token: _Token, level: int) -> Expression:
        if self._tokens[self._at].text == "(" and self._tokens[self._at].kind == "mark":
            self._at += 1
            return Call(token.text, self._items(")", level), token.place)
        if token.text in ("true", "false"):
            return Literal(token.text == "true", token.place)
        root, *steps = (step for step in token.text.split(".") if step)  # nothing between two dots is no step
        return Path(root, tuple(map(Key, steps)), token.place)

    def _items(self, closing: str, level: int) -> tuple[Expression, ...]:
        """Arguments or elements up to the closing mark, which is taken."""
        if closing == ")" and self._tokens[self._at].text == ")":
            self._at += 1
            return ()
        items = [self._argument(level + 1)]
        while True:
            token = self._next()
            if token.kind == "mark" and token.text == closing:
                return tuple(items)
            if token.kind != "mark" or token.text != ",":
                raise self._unexpected(token, f"',' or '{closing}'")
            items.append(self._argument(level + 1))

    def _argument(self, level: int) -> Expression:
        token = self._tokens[self._at]
        if token.kind != "mark" or token.text != "[":
            return self._expression(level)
        if level > _LEVELS_MAX:
            raise VariformSyntaxError(f"more than {_LEVELS_MAX} arrays within one another", self._text, token.place)
        self._at += 1
        return ListLiteral(self._items("]", level), token.place)

    def _number(self, token: _Token) -> int | float:
        if token.kind == "float":
            number = float(token.text)
            if number in (float("inf"), float("-inf")):
                raise VariformSyntaxError("the number is larger than a 64-bit float can be", self._text, token.place)
            return number
        try:
            return integer_of_digits(token.text)
        except EvaluationFault as fault:
            raise VariformSyntaxError(str(fault), self._text, token.place) from None


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = line_start = 0
    line = 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        end = match.end() if match else at + 1
        # Counted on the way: looking back from each token would take a time that grows with the square of the text.
        place = Place(at, end, line, at - line_start + 1)
        if match is None:
            problem = "the string has no end" if text[at] in "'\"" else f"unexpected character {text[at]!r}"
            raise VariformSyntaxError(problem, text, place)
        if match.lastgroup != "blank":
            if len(tokens) >= _TOKENS_MAX:
                raise VariformSyntaxError(f"more than {_TOKENS_MAX:,} words, values and marks", text, place)
            tokens.append(_Token(match.lastgroup or "", match[0], place))
        if "\n" in match[0]:
            line += match[0].count("\n")
            line_start = text.rindex("\n", at, end) + 1
        at = end
    return [*tokens, _Token("end", "", Place(at, at, line, at - line_start + 1))]


class VariformEvaluationError(VariformError):
    """One evaluation failed; the caller decides what to use instead of the result."""

    code: ClassVar[str] = "variform_evaluation"


class UnboundFault(EvaluationFault):
    """A variable has no value; `coalesce`, `iif` and `is_empty` take that for the empty string."""
