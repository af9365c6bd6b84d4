"""Text to tokens: every lexical rule of the language, and the two that look at neighbouring tokens.

The syntax knows no lines and has one symbol of look-ahead, so two decisions fall here: a string right before `=`, `:`,
`+=` or `{` is a key, and between `}` and `{` on different lines stands a comma. What tokens form a document is the
grammar's business.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.limits import ParsingLimits

TokenValue = bool | int | float | str | None


# Kinds of tokens: the terminals of grammar.lark.
KEY: Final = "KEY"
WORD: Final = "WORD"
QUOTED: Final = "QUOTED"
TRIPLE: Final = "TRIPLE"
UNIT: Final = "UNIT"
NUMBER: Final = "NUMBER"
KEYWORD: Final = "KEYWORD"
REFERENCE: Final = "REFERENCE"
INCLUDE: Final = "INCLUDE"
REQUIRED: Final = "REQUIRED"
COMMA: Final = "COMMA"
LBRACE: Final = "LBRACE"
RBRACE: Final = "RBRACE"
_PUNCTUATION: Final = {
    "{": LBRACE,
    "}": RBRACE,
    "[": "LBRACKET",
    "]": "RBRACKET",
    ",": COMMA,
    ":": "COLON",
    "=": "EQUALS",
    "+=": "APPEND",
}
_KEYWORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_STRINGS: Final = frozenset({WORD, QUOTED, TRIPLE, UNIT})
_AFTER_KEY: Final = frozenset({"EQUALS", "COLON", "APPEND", LBRACE})
_BOM: Final = "\ufeff"
_WORD = r"[A-Za-z][A-Za-z0-9_.@%|-]*+"
_LINE_ENDS = r"\n\r\u2028\u2029"
_STRING = rf'"(?:[^"\\{_LINE_ENDS}]|\\[^{_LINE_ENDS}])*+"'
_SKIPPED: Final = re.compile(rf"(?:[\t\v\f \xa0{_LINE_ENDS}]++|(?:\#|//)[^{_LINE_ENDS}]*+)*+")


# Alternatives stand so that the first match is the longest. Possessive repetitions keep hostile texts linear.
_TOKEN: Final = re.compile(
    rf"""
      (?P<TRIPLE>\"\"\")
    | (?P<QUOTED>{_STRING})
    | (?P<FLOAT>[+-]?(?:[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++|\.[0-9]++))
    | (?P<UNIT>[0-9]++(?:kb|KB|mb|MB|gb|GB|ms|MS|[dDhHmMsSbB%]))
    | (?P<INTEGER>[+-]?[0-9]++)
    | (?P<REQUIRED>required\({_STRING}\))
    | (?P<WORD>{_WORD})
    | (?P<REFERENCE>\$\{{\??{_WORD}\}})
    | (?P<PUNCTUATION>\+=|[{{}}\[\],:=])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_SIMPLE = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class Token:
    """One token; also what the grammar library expects of a token."""

    __slots__ = ("line", "position", "text", "type", "value")

    # The library copies these when it makes its own end token.
    start_pos = column = end_line = end_column = end_pos = None

    def __init__(self, kind: str, value: TokenValue, text: str, line: int, position: SourcePosition) -> None:
        self.type = kind
        self.value = value
        self.text = text
        self.line = line
        self.position = position

    def __repr__(self) -> str:
        return f"Token({self.type}, {self.text!r}, {self.position})"


def scan(text: str, name: str, limits: ParsingLimits, *, before: int = 0, numbered: bool = True) -> list[Token]:
    """Cut a whole text into tokens; a byte order mark at its start is dropped.

    Args:
        before: Tokens that other texts of the document have already.
        numbered: Whether positions tell the line; those in an environment variable do not.

    Raises:
        HoconError: At the first illegal character, unterminated string or limit passed.
    """
    return _link(_cut(text, name, limits, before, numbered), limits)


def _cut(text: str, name: str, limits: ParsingLimits, before: int, numbered: bool) -> list[Token]:
    tokens: list[Token] = []
    offset = 1 if text.startswith(_BOM) else 0
    line = 1
    position = SourcePosition(name, line if numbered else None)
    while True:
        start = _end_of_skipped(text, offset)
        lines = text.count("\n", offset, start)
        if lines:
            # Tokens of one line share their position, so that a long document makes few of them.
            line += lines
            position = SourcePosition(name, line) if numbered else position
        if start == len(text):
            return tokens
        match = _TOKEN.match(text, start)
        if match is None:
            raise _illegal(text[start], position)
        if before + len(tokens) >= limits.tokens:
            raise HoconError.at(
                position,
                f"more than {limits.tokens} words, values and punctuation marks in one document with what it includes, "
                "which is the limit",
            )
        kind = str(match.lastgroup)
        offset = match.end()
        if kind == TRIPLE:
            offset = _end_of_triple(text, start, position)
        lexeme = text[start:offset]
        kind, value = _read(kind, lexeme, position, limits)
        tokens.append(Token(kind, value, lexeme, line, position))
        if kind == TRIPLE and "\n" in lexeme:
            line += lexeme.count("\n")
            position = SourcePosition(name, line) if numbered else position


def _end_of_skipped(text: str, start: int) -> int:
    match = _SKIPPED.match(text, start)
    return match.end() if match else start


def _read(kind: str, lexeme: str, position: SourcePosition, limits: ParsingLimits) -> tuple[str, TokenValue]:
    if kind == "PUNCTUATION":
        return _PUNCTUATION[lexeme], lexeme
    if kind == WORD:
        if lexeme in _KEYWORDS:
            return KEYWORD, _KEYWORDS[lexeme]
        return INCLUDE if lexeme == "include" else WORD, lexeme
    if kind == "INTEGER":
        return NUMBER, _integer(lexeme, position, limits)
    if kind == "FLOAT":
        return NUMBER, _float(lexeme, position)
    if kind == QUOTED:
        return kind, unescape(lexeme[1:-1], position)
    if kind == TRIPLE:
        return kind, dedent(lexeme[3:-3])
    if kind == REQUIRED:
        return kind, unescape(lexeme[len('required("') : -2], position)
    if kind == REFERENCE:
        return kind, lexeme[2:-1]
    return kind, lexeme


def _integer(lexeme: str, position: SourcePosition, limits: ParsingLimits) -> int:
    if len(lexeme) <= 4000:
        return int(lexeme)
    if len(lexeme) > limits.integer_digits:
        raise HoconError.at(
            position,
            f"an integer of {len(lexeme)} digits: the limit is {limits.integer_digits}; quote it to keep a text",
        )
    # int() refuses more than 4300 digits; Decimal reads any number of them exactly.
    return int(Decimal(lexeme))


def _float(lexeme: str, position: SourcePosition) -> float:
    number = float(lexeme)
    if math.isinf(number):
        raise HoconError.at(position, f"{_shorten(lexeme)} is too large for a float: the largest is 1.797e308")
    return number


def _end_of_triple(text: str, start: int, position: SourcePosition) -> int:
    closing = text.find('"""', start + 3)
    if closing < 0:
        raise HoconError.at(position, 'this """ string is never closed: expected """ before the end of the text')
    end = closing + 3
    if text.startswith('"', end):
        line = None if position.line is None else position.line + text.count("\n", start, end)
        raise HoconError(
            position.source,
            line,
            'four quotes in a row: a """ string cannot end in a quote; start it with ~ and a line end, '
            'then end it with ~"""',
        )
    return end


def _illegal(character: str, position: SourcePosition) -> HoconError:
    if character == '"':
        return HoconError.at(
            position, 'this string is never closed: expected " on the same line (for several lines use """)'
        )
    if character == _BOM:
        return HoconError.at(position, "a byte order mark may only stand at the start of a file")
    if character == "$":
        return HoconError.at(
            position, "illegal character '$': a substitution is ${path} or ${?path} without blanks or quotes inside"
        )
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    return HoconError.at(position, f"illegal character {shown}: put text that holds it in double quotes")


def _link(tokens: list[Token], limits: ParsingLimits) -> list[Token]:
    """Mark keys, insert the comma between `}` and `{`, and check how deep brackets stand inside each other."""
    linked: list[Token] = []
    depth = 0
    previous: Token | None = None
    for token in tokens:
        kind = token.type
        if previous is not None:
            if kind in _AFTER_KEY and previous.type in _STRINGS:
                previous.type = KEY
            if kind == LBRACE and previous.type == RBRACE and token.line != previous.line:
                linked.append(Token(COMMA, ",", ",", token.line, token.position))
        if kind in (LBRACE, "LBRACKET"):
            depth += 1
            if depth > limits.depth:
                raise HoconError.at(token.position, f"nested more than {limits.depth} levels deep, which is the limit")
        elif kind in (RBRACE, "RBRACKET"):
            depth -= 1
        linked.append(token)
        previous = token
    return linked


def key_path(token: Token) -> tuple[str, ...]:
    """A bare key splits at its dots, a quoted one is a single name."""
    if token.type == KEY and token.text.startswith('"'):
        return (str(token.value),)
    return split_path(str(token.value))


def split_path(text: str) -> tuple[str, ...]:
    """Empty parts do not count."""
    return tuple(part for part in text.split(".") if part)


def _shorten(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def unescape(text: str, position: SourcePosition) -> str:
    """What stands between the quotes of a `"..."` string.

    Escapes other than the known ones keep their backslash: regular expressions in real files rely on it.

    Raises:
        HoconError: `\\u` without four hexadecimal digits, or half of a surrogate pair.
    """
    if "\\" not in text:
        return text
    pieces: list[str] = []
    end = 0
    high = ""  # the first half of a surrogate pair, waiting for the second
    for match in _ESCAPE.finditer(text):
        between = text[end : match.start()]
        if high and (between or match[1] is None):
            raise _lone_surrogate(high, position)
        pieces.append(between)
        end = match.end()
        if match[1] is not None:
            code = int(match[1], 16)
            if 0xD800 <= code < 0xDC00 and not high:
                high = match[1]
            elif 0xDC00 <= code < 0xE000 and high:
                pieces.append(chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (code - 0xDC00)))
                high = ""
            elif high or 0xD800 <= code < 0xE000:
                raise _lone_surrogate(high or match[1], position)
            else:
                pieces.append(chr(code))
        elif match[2] == "u":
            found = text[match.start() : match.start() + 6]
            raise HoconError.at(
                position,
                f'"{found}" is not a character: \\u takes four hexadecimal digits; write \\\\u for a backslash',
            )
        else:
            pieces.append(_SIMPLE.get(match[2], match[0]))
    if high:
        raise _lone_surrogate(high, position)
    pieces.append(text[end:])
    return "".join(pieces)


def _lone_surrogate(digits: str, position: SourcePosition) -> HoconError:
    return HoconError.at(
        position,
        f'"\\u{digits}" is half of a surrogate pair: write both halves together, as in "\\ud83d\\ude00", '
        "or the character itself",
    )


def dedent(text: str) -> str:
    r"""What stands between triple quotes: as it is, or without its indentation if it starts with `~` + line end.

    Lines end at LF; a CR before it belongs to the line. Only blanks indent: a tab is text.
    """
    if text.startswith("~\n"):
        body = text[2:]
    elif text.startswith("~\r\n"):
        body = text[3:]
    else:
        return text
    body = body.removesuffix("~")
    lines = body.split("\n")
    last = len(lines) - 1
    indents = [
        _indent(line)
        for number, line in enumerate(lines)
        if line not in ("", "\r") and not (number == last and not line.strip(" "))
    ]
    if not indents:
        # Only a last line of blanks (if anything): nothing says how deep the text stands.
        lines[last] = lines[last].lstrip(" ")
        return "\n".join(lines)
    cut = min(indents)
    return "\n".join(line[min(cut, _indent(line)) :] for line in lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
