"""Erlang's external term format, as far as tables of EMQX have it: bytes to Python values.

Atoms are `Atom`s, binaries bytes, strings and lists lists, tuples tuples, maps dictionaries. References, ports,
functions and bit strings stand in no table that is read, and are refused.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

_VERSION: Final = 131
_COMPRESSED: Final = 80
_DEPTH_MAX: Final = 64
_SIZE_MAX: Final = 64 * 1024 * 1024

Term: TypeAlias = "Atom | int | float | bytes | list[Term] | tuple[Term, ...] | dict[Term, Term]"


class TermError(ValueError):
    """Bytes that are no term, or one that is not read here."""


class Atom(str):
    """An atom."""

    __slots__ = ()


def read_term(data: bytes) -> Term:
    """The term that some bytes are, with the version byte; raises `TermError`."""
    if data[:2] == bytes((_VERSION, _COMPRESSED)):
        data = data[:1] + _inflated(data)
    if not data or data[0] != _VERSION:
        raise TermError("it has no version byte")
    reader = _TermReader(data)
    try:
        return reader.term(0)
    except (IndexError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise TermError(f"it ends too early, or has a term that is not valid: {error}") from None


def _inflated(data: bytes) -> bytes:
    size = int.from_bytes(data[2:6])
    if size > _SIZE_MAX:
        raise TermError(f"it has {size} bytes; {_SIZE_MAX} are read at most")
    try:
        return zlib.decompressobj().decompress(data[6:], size)
    except zlib.error as error:
        raise TermError(f"it cannot be decompressed: {error}") from None


class _TermReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 1

    def term(self, depth: int) -> Term:
        if depth > _DEPTH_MAX:
            raise TermError(f"it is nested more than {_DEPTH_MAX} deep")
        tag = self._number(1)
        read = _READERS.get(tag)
        if read is None:
            raise TermError(f"it has a term of the tag {tag}, which is not read here")
        return read(self, depth)

    def _number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._bytes(size), signed=signed)

    def _bytes(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise TermError("it ends too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def _small_integer(self, depth: int) -> Term:
        return self._number(1)

    def _integer(self, depth: int) -> Term:
        return self._number(4, signed=True)

    def _float(self, depth: int) -> Term:
        return float(struct.unpack(">d", self._bytes(8))[0])

    def _atom(self, depth: int) -> Term:
        return Atom(self._bytes(self._number(2)).decode())

    def _small_atom(self, depth: int) -> Term:
        return Atom(self._bytes(self._number(1)).decode())

    def _tuple(self, depth: int) -> Term:
        return tuple(self._terms(self._number(1), depth))

    def _large_tuple(self, depth: int) -> Term:
        return tuple(self._terms(self._number(4), depth))

    def _nil(self, depth: int) -> Term:
        return []

    def _string(self, depth: int) -> Term:
        return list(self._bytes(self._number(2)))

    def _list(self, depth: int) -> Term:
        items = self._terms(self._number(4), depth)
        if self.term(depth + 1) != []:
            raise TermError("it has a list without an end")
        return items

    def _binary(self, depth: int) -> Term:
        return self._bytes(self._number(4))

    def _small_big(self, depth: int) -> Term:
        return self._big(self._number(1))

    def _large_big(self, depth: int) -> Term:
        return self._big(self._number(4))

    def _map(self, depth: int) -> Term:
        count = self._number(4)
        return {self.term(depth + 1): self.term(depth + 1) for _ in range(count)}

    def _big(self, size: int) -> int:
        is_negative = self._number(1) == 1
        value = int.from_bytes(self._bytes(size), "little")
        return -value if is_negative else value

    def _terms(self, count: int, depth: int) -> list[Term]:
        if count > len(self._data):  # each takes a byte at least
            raise TermError("it ends too early")
        return [self.term(depth + 1) for _ in range(count)]


_READERS: Final[Mapping[int, Callable[[_TermReader, int], Term]]] = {
    70: _TermReader._float,
    97: _TermReader._small_integer,
    98: _TermReader._integer,
    100: _TermReader._atom,
    104: _TermReader._tuple,
    105: _TermReader._large_tuple,
    106: _TermReader._nil,
    107: _TermReader._string,
    108: _TermReader._list,
    109: _TermReader._binary,
    110: _TermReader._small_big,
    111: _TermReader._large_big,
    115: _TermReader._small_atom,
    116: _TermReader._map,
    118: _TermReader._atom,
    119: _TermReader._small_atom,
}
