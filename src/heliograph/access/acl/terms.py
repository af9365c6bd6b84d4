"""Erlang terms as a file holds them: each ended by a dot. It says where each one stands; what it means is `conf`'s."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from heliograph.access.acl.errors import AclFault
from heliograph.access.acl.tokens import (
    ATOM,
    DOT,
    END,
    FLOAT,
    INTEGER,
    MARK,
    STRING,
    VARIABLE,
    Scanner,
    TermSyntaxError,
    TermToken,
)

BINARY: Final = "binary"
TUPLE: Final = "tuple"
LIST: Final = "list"
MAP: Final = "map"
IMPROPER_LIST: Final = "improper list"

_DEPTH_MAX: Final = 64
_SHOWN_MAX: Final = 60
_RESERVED: Final = frozenset(
    (
        *("after", "and", "andalso", "band", "begin", "bnot", "bor", "bsl", "bsr", "bxor", "case", "catch", "cond"),
        *("div", "end", "fun", "if", "let", "not", "of", "or", "orelse", "receive", "rem", "try", "when", "xor"),
    )
)


@dataclass(frozen=True, slots=True)
class Term:
    """One term.

    Attributes:
        kind: `ATOM`, `INTEGER`, `FLOAT`, `STRING`, `BINARY`, `TUPLE`, `LIST`, `MAP` or `IMPROPER_LIST`.
        value: The atom's name, the number, or the text; bytes of a binary that are not UTF-8 are surrogates, as in
            `os.environ`.
        items: What a tuple or a list holds.
    """

    kind: str
    begin: int
    end: int
    value: str | int | float = ""
    items: tuple["Term", ...] = field(default=())

    def is_atom(self, *names: str) -> bool:
        return self.kind == ATOM and self.value in names


class TermReader:
    """Reads the terms of a text; made for one text.

    Attributes:
        faults: What could not be read; reading goes on behind the next dot.
    """

    def __init__(self, text: str) -> None:
        self.scanner = Scanner(text)
        self.faults: list[AclFault] = []
        self._token = TermToken(END, "", 0, 0)

    def terms(self) -> Iterator[Term]:
        is_more = True
        while is_more:
            begin = self._token.begin
            try:
                self._advance()
                begin = self._token.begin
                if self._token.kind == END:
                    return
                term = self._term(0)
                self._expect_dot(term)
            except TermSyntaxError as error:
                self.faults.append(error.fault)
                if error.at == begin and self.scanner.text[begin : begin + 1] in ("#", "/", ";"):
                    self.scanner.skip_line(begin)  # it was meant as a comment
                else:
                    is_more = self.scanner.skip_term(error.at)
            else:
                yield term

    def shown(self, term: Term) -> str:
        text = " ".join(self.scanner.text[term.begin : term.end].split())
        return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."

    def _advance(self) -> None:
        self._token = self.scanner.next()

    def _error(self, problem: str, token: TermToken | None = None) -> TermSyntaxError:
        return self.scanner.error(problem, (self._token if token is None else token).begin)

    def _is_mark(self, *marks: str) -> bool:
        return self._token.kind == MARK and self._token.value in marks

    def _expect_dot(self, term: Term) -> None:
        if self._token.kind == DOT:
            return
        if self._token.kind == END:
            raise self._error(f"the final dot is missing behind {self.shown(term)}")
        if self._is_mark("."):
            raise self._error("a blank or the end of the line must follow the dot")
        raise self._error(f"found {self._token}; a dot must end the rule before it")

    def _term(self, depth: int) -> Term:
        """The term that begins with the token; the token behind it is the next one."""
        token = self._token
        if depth > _DEPTH_MAX:
            raise self._error(f"terms are nested more than {_DEPTH_MAX} deep")
        if token.kind == STRING:
            return self._string()
        if token.kind == ATOM:
            if token.value in _RESERVED and self.scanner.text[token.begin] != "'":
                raise self._error(f"{token.value} is a reserved word of Erlang; write it in quotes: '{token.value}'")
            return self._simple(token)
        if token.kind in (INTEGER, FLOAT):
            return self._simple(token)
        if token.kind == MARK:
            return self._of_mark(token, depth)
        if token.kind == VARIABLE:
            raise self._error(f"found {token}; a word that begins with a capital or '_' is no value")
        raise self._error(f"found {token} where a term must stand")

    def _simple(self, token: TermToken) -> Term:
        self._advance()
        return Term(token.kind, token.begin, token.end, token.value)

    def _string(self) -> Term:
        first, pieces = self._token, [""]
        end = first.end
        while self._token.kind == STRING:
            pieces.append(str(self._token.value))
            end = self._token.end
            self._advance()
        return Term(STRING, first.begin, end, "".join(pieces))

    def _of_mark(self, token: TermToken, depth: int) -> Term:
        if token.value == "{":
            items, end = self._items("}", depth)
            return Term(TUPLE, token.begin, end, items=items)
        if token.value == "[":
            return self._list(token, depth)
        if token.value == "<<":
            return self._binary(token)
        if token.value in ("-", "+"):
            return self._signed(token)
        if token.value == "#":
            self._advance()
            if self._is_mark("{"):
                items, end = self._items("}", depth, is_map=True)
                return Term(MAP, token.begin, end, items=items)
        hint = "; a comment begins with '%'" if token.value in ("#", "/", ";") else ""
        raise self._error(f"found {token} where a term must stand{hint}", token)

    def _items(self, closing: str, depth: int, is_map: bool = False) -> tuple[tuple[Term, ...], int]:
        """What stands between brackets, of which the token is the opening one, and where they have ended.

        Before the tail of a list they have not; the end is 0 then.
        """
        opening, items = self._token, list[Term]()
        self._advance()
        while not self._is_mark(closing):
            if items:
                self._check_comma(opening, closing)
                self._advance()
                if self._is_mark(closing):
                    raise self._error(f"found '{closing}' where a term must follow the comma")
            items.append(self._term(depth + 1))
            if is_map:
                items.append(self._map_value(depth))
            if closing == "]" and self._is_mark("|"):
                return tuple(items), 0
        end = self._token.end
        self._advance()
        return tuple(items), end

    def _map_value(self, depth: int) -> Term:
        if not self._is_mark("=>"):
            raise self._error(f"found {self._token}; '=>' must follow the key of a map")
        self._advance()
        return self._term(depth + 1)

    def _check_comma(self, opening: TermToken, closing: str) -> None:
        if not self._is_mark(","):
            place = "line {}, column {}".format(*self.scanner.position(opening.begin))
            raise self._error(f"found {self._token}; ',' or '{closing}' must follow, for the {opening} at {place}")

    def _list(self, token: TermToken, depth: int) -> Term:
        items, end = self._items("]", depth)
        if end:
            return Term(LIST, token.begin, end, items=items)
        self._advance()
        tail = self._term(depth + 1)
        if not self._is_mark("]"):
            raise self._error(f"found {self._token}; ']' must follow the tail of a list")
        end = self._token.end
        self._advance()
        if tail.kind == LIST:  # [a|[b]] is [a,b]
            return Term(LIST, token.begin, end, items=(*items, *tail.items))
        return Term(IMPROPER_LIST, token.begin, end, items=(*items, tail))

    def _signed(self, sign: TermToken) -> Term:
        self._advance()
        token = self._token
        if token.kind not in (INTEGER, FLOAT) or isinstance(token.value, str):
            raise self._error(f"found {token}; a number must follow '{sign.value}'")
        self._advance()
        return Term(token.kind, sign.begin, token.end, -token.value if sign.value == "-" else token.value)

    def _binary(self, opening: TermToken) -> Term:
        content = bytearray()
        self._advance()
        while not self._is_mark(">>"):
            content += self._segment()
            if self._is_mark(","):
                self._advance()
                if self._is_mark(">>"):
                    raise self._error("a term must follow the comma before '>>'")
            elif not self._is_mark(">>"):
                raise self._error(f"found {self._token}; ',' or '>>' must follow in a binary")
        end = self._token.end
        self._advance()
        return Term(BINARY, opening.begin, end, content.decode("utf-8", "surrogateescape"))

    def _segment(self) -> bytes:
        token = self._token
        if token.kind == INTEGER and isinstance(token.value, int):
            self._advance()
            self._refuse_type("a number")
            return bytes([token.value & 0xFF])
        if token.kind != STRING:
            raise self._error(f'found {token}; a binary holds strings and bytes: <<"text">>, <<"tëxt"/utf8>>, <<1,2>>')
        text = str(self._string().value)
        if self._is_mark("/"):
            self._advance()
            if self._token.kind != ATOM or self._token.value != "utf8":
                raise self._error(f"found {self._token}; the only type that may follow a string is utf8")
            self._advance()
            return text.encode("utf-8")
        self._refuse_type("a string without /utf8")
        if any(character > "\xff" for character in text):
            raise self._error('a string with such characters needs /utf8: <<"..."/utf8>>', token)
        return text.encode("latin-1")

    def _refuse_type(self, what: str) -> None:
        if self._is_mark(":", "/"):
            raise self._error(f"found {self._token}; {what} of a binary has neither size nor type here")
