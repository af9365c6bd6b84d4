"""The tokens of Erlang terms: atoms, numbers, characters, strings, punctuation."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from heliograph.access.acl.errors import AclFault

ATOM: Final = "atom"
VARIABLE: Final = "variable"
INTEGER: Final = "integer"
FLOAT: Final = "float"
STRING: Final = "string"
MARK: Final = "mark"
DOT: Final = "dot"
END: Final = "end"

_SKIPPED: Final = re.compile(r"(?:[\x00-\x20\x7f-\xa0\ufeff]++|%[^\n]*+)*+")
_TOKEN: Final = re.compile(
    r"""
      (?P<atom>[a-zß-öø-ÿ][0-9A-Za-z_@ß-öø-ÿÀ-ÖØ-Þ]*+)
    | (?P<variable>[A-Z_À-ÖØ-Þ][0-9A-Za-z_@ß-öø-ÿÀ-ÖØ-Þ]*+)
    | (?P<float>\d++(?:_\d++)*+\.\d++(?:_\d++)*+(?:[eE][+-]?\d++)?)
    | (?P<based>\d++(?:_\d++)*+\#[0-9A-Za-z_]++)
    | (?P<integer>\d++(?:_\d++)*+)
    | (?P<dot>\.(?=[\x00-\x20\x7f-\xa0%]|\Z))
    | (?P<mark><<|>>|=>|:=|\+\+|--|\|\||[{}\[\](),|+\-/:.;=*!?<>&@^`~\#\\])
    """,
    re.VERBOSE | re.ASCII,
)
_LINE_END: Final = re.compile(r"\n")
_QUOTED: Final = re.compile(r"[^\\'\"]++")
_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "s": " ",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "d": "\x7f",
    "0": "\0",
}
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x\{(?P<braced>[0-9A-Fa-f]++)\}|x(?P<hex>[0-9A-Fa-f]{2})|\^(?P<control>[\s\S])|(?P<other>[^x^]))"
)
_INTEGER_DIGITS_MAX: Final = 4000
_CODE_POINT_MAX: Final = 0x10FFFF


class TermSyntaxError(Exception):
    """What cannot be read as a term; `at` is its offset in the text."""

    def __init__(self, fault: AclFault, at: int) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.at = at


@dataclass(frozen=True, slots=True)
class TermToken:
    """One token; its value is the text of an atom or string, a number, or the characters of a mark."""

    kind: str
    value: str | int | float
    begin: int
    end: int

    def __str__(self) -> str:
        if self.kind == END:
            return "the end of the text"
        if self.kind == DOT:
            return "'.'"
        return f"{self.kind} {self.value!r}" if self.kind != MARK else repr(self.value)


class Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._line_begins = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def position(self, at: int) -> tuple[int, int]:
        """Line and column of an offset, from 1."""
        line = bisect_right(self._line_begins, at)
        return line, at - self._line_begins[line - 1] + 1

    def error(self, problem: str, at: int) -> TermSyntaxError:
        return TermSyntaxError(AclFault(problem, *self.position(at)), at)

    def next(self) -> TermToken:
        """Raises `TermSyntaxError`."""
        at = _skip(self.text, self._at)
        if at == len(self.text):
            self._at = at
            return TermToken(END, "", at, at)
        character = self.text[at]
        if character in "\"'":
            return self._quoted(at)
        if character == "$":
            return self._character(at)
        found = _TOKEN.match(self.text, at)
        if found is None:
            raise self.error(f"{character!r} begins no term; a comment begins with '%'", at)
        self._at = found.end()
        kind = found.lastgroup or ""
        return TermToken(INTEGER if kind == "based" else kind, self._value(kind, found[0], at), at, found.end())

    def skip_term(self, at: int) -> bool:
        """Go on behind the next dot that ends a term, looking from an offset on; whether there is one."""
        self._at = at
        while True:
            try:
                token = self.next()
            except TermSyntaxError as error:
                self._at = max(error.at, self._at) + 1
                continue
            if token.kind in (DOT, END):
                return token.kind == DOT

    def skip_line(self, at: int) -> None:
        end = self.text.find("\n", at)
        self._at = len(self.text) if end < 0 else end

    def _value(self, kind: str, text: str, at: int) -> str | int | float:
        if kind == "float":
            value = float(text)
            if value in (float("inf"), float("-inf")):
                raise self.error(f"{text} is too large for a number", at)
            return value
        if kind not in ("integer", "based"):
            return text
        if len(text) > _INTEGER_DIGITS_MAX:
            raise self.error("the number is too long", at)
        try:
            return _integer(text)
        except ValueError:
            raise self.error(f"{text} is no number; one with a base looks like 16#FF", at) from None

    def _character(self, at: int) -> TermToken:
        if at + 1 == len(self.text):
            raise self.error("a character must follow '$'", at)
        if self.text[at + 1] == "\\":
            value, end = self._escape(at + 1)
        else:
            value, end = self.text[at + 1], at + 2
        self._at = end
        return TermToken(INTEGER, ord(value), at, end)

    def _quoted(self, begin: int) -> TermToken:
        quote, at = self.text[begin], begin + 1
        pieces: list[str] = []
        while at < len(self.text):
            character = self.text[at]
            if character == quote:
                self._at = at + 1
                return TermToken(STRING if quote == '"' else ATOM, "".join(pieces), begin, self._at)
            if character == "\\":
                piece, at = self._escape(at)
            else:
                found = _QUOTED.match(self.text, at)
                piece = character if found is None else found[0]
                at += len(piece)
            pieces.append(piece)
        what = "string" if quote == '"' else "quoted atom"
        error = self.error(f"the {what} that begins here does not end: {quote} is missing", begin)
        error.at = len(self.text)  # what follows would be read as what it is not
        raise error

    def _escape(self, at: int) -> tuple[str, int]:
        """The character of an escape, and where it has ended."""
        found = _ESCAPE.match(self.text, at)
        if found is None:
            raise self.error("no character is escaped here; valid are \\n, \\xHH, \\x{H..}, \\ooo and the like", at)
        if found["other"] is not None:
            return _ESCAPES.get(found["other"], found["other"]), found.end()
        if found["control"] is not None:
            return chr(ord(found["control"]) & 31), found.end()
        digits = found["octal"] or ""
        code = int(digits, 8) if digits else int((found["braced"] or found["hex"])[-9:], 16)
        if code > _CODE_POINT_MAX or 0xD800 <= code <= 0xDFFF:
            raise self.error(f"{found[0]} is no character of Unicode", at)
        return chr(code), found.end()


def _skip(text: str, at: int) -> int:
    found = _SKIPPED.match(text, at)
    return at if found is None else found.end()


def _integer(text: str) -> int:
    if text.startswith("_") or text.endswith("_"):
        raise ValueError(text)
    base, mark, digits = text.replace("_", "").partition("#")
    if not mark:
        return int(base)
    if not 2 <= int(base) <= 36:
        raise ValueError(text)
    return int(digits, int(base))
