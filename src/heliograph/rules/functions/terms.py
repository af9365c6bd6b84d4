"""Erlang's external term format: what `term_encode` writes and `term_decode` reads.

Strings are binaries, arrays lists, maps maps, and true, false, null and undefined atoms. What a value of the language
can have no equal of (pids, tuples, references) is refused. Source: "External Term Format" of the Erlang documentation.
"""

import struct
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.values import UNDEFINED, Value, bytes_of, string_of

_VERSION: Final = 131
_NEW_FLOAT: Final = 70
_SMALL_INTEGER: Final = 97
_INTEGER: Final = 98
_ATOM: Final = 100
_NIL: Final = 106
_STRING: Final = 107
_LIST: Final = 108
_BINARY: Final = 109
_SMALL_BIG: Final = 110
_LARGE_BIG: Final = 111
_MAP: Final = 116
_SMALL_ATOM: Final = 115
_UTF8_ATOM: Final = 118
_SMALL_UTF8_ATOM: Final = 119
_LEVELS_MAX: Final = 200
# A term can be one byte, and each takes the time of a hundred; an integer that is too long cannot be worked with.
_TERMS_MAX: Final = 50_000
_INTEGER_BYTES_MAX: Final = 16_384

_ATOMS: Final[dict[bytes, Value]] = {b"true": True, b"false": False, b"null": None, b"undefined": UNDEFINED}


def encode_term(value: Value) -> bytes:
    """A value with the version byte in front."""
    pieces: list[bytes] = [bytes([_VERSION])]
    _encode(value, pieces, 0)
    return b"".join(pieces)


def _encode(value: Value, pieces: list[bytes], level: int) -> None:
    if level > _LEVELS_MAX:
        raise EvaluationFault(f"it is nested more than {_LEVELS_MAX} levels deep")
    if isinstance(value, str | bytes):
        data = bytes_of(value)
        pieces += [struct.pack(">BI", _BINARY, len(data)), data]
    elif isinstance(value, bool) or value is None or value is UNDEFINED:
        name = next(name for name, atom in _ATOMS.items() if atom is value)
        pieces += [bytes([_SMALL_UTF8_ATOM, len(name)]), name]
    elif isinstance(value, int):
        pieces.append(_encoded_integer(value))
    elif isinstance(value, float):
        pieces.append(struct.pack(">Bd", _NEW_FLOAT, value))
    elif isinstance(value, list):
        if value:
            pieces.append(struct.pack(">BI", _LIST, len(value)))
            for item in value:
                _encode(item, pieces, level + 1)
        pieces.append(bytes([_NIL]))
    elif isinstance(value, dict):
        pieces.append(struct.pack(">BI", _MAP, len(value)))
        for key in sorted(value):
            _encode(key, pieces, level + 1)
            _encode(value[key], pieces, level + 1)


def _encoded_integer(value: int) -> bytes:
    if 0 <= value <= 255:
        return bytes([_SMALL_INTEGER, value])
    if -(2**31) <= value < 2**31:
        return struct.pack(">Bi", _INTEGER, value)
    digits = abs(value).to_bytes((abs(value).bit_length() + 7) // 8, "little")
    is_small = len(digits) < 256
    head = struct.pack(">BB" if is_small else ">BI", _SMALL_BIG if is_small else _LARGE_BIG, len(digits))
    return head + bytes([value < 0]) + digits


def decode_term(data: bytes) -> Value:
    reader = _TermReader(data)
    try:
        if reader.number("B") != _VERSION:
            raise EvaluationFault("it is no Erlang term: the first byte is not 131")
        value = reader.term(0)
    except struct.error:
        raise EvaluationFault("it is no Erlang term: it ends too early") from None
    if reader.at != len(data):
        raise EvaluationFault(f"{len(data) - reader.at} bytes stand behind the term")
    return value


class _TermReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._terms = 0
        self.at = 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self.at)
        self.at += struct.calcsize(">" + code)
        return int(value)

    def take(self, length: int) -> bytes:
        if self.at + length > len(self._data):
            raise struct.error
        piece = self._data[self.at : self.at + length]
        self.at += length
        return piece

    def term(self, level: int) -> Value:
        if level > _LEVELS_MAX:
            raise EvaluationFault(f"it is nested more than {_LEVELS_MAX} levels deep")
        self._terms += 1
        if self._terms > _TERMS_MAX:
            raise EvaluationFault(f"it holds more than {_TERMS_MAX:,} terms")
        tag = self.number("B")
        if tag == _BINARY:
            return string_of(self.take(self.number("I")))
        if tag == _SMALL_INTEGER:
            return self.number("B")
        if tag == _INTEGER:
            return self.number("i")
        if tag in (_SMALL_BIG, _LARGE_BIG):
            return self._big(self.number("B" if tag == _SMALL_BIG else "I"))
        if tag == _NEW_FLOAT:
            (number,) = struct.unpack(">d", self.take(8))
            return float(number)
        if tag in (_SMALL_UTF8_ATOM, _SMALL_ATOM, _UTF8_ATOM, _ATOM):
            name = self.take(self.number("B" if tag in (_SMALL_UTF8_ATOM, _SMALL_ATOM) else "H"))
            return _ATOMS[name] if name in _ATOMS else string_of(name)
        if tag == _NIL:
            return []
        if tag == _STRING:
            return list(self.take(self.number("H")))
        if tag == _LIST:
            return self._list(level)
        if tag == _MAP:
            return self._map(level)
        raise EvaluationFault(f"it holds a term of the kind {tag}, which the rule language does not have")

    def _big(self, length: int) -> int:
        if length > _INTEGER_BYTES_MAX:
            raise EvaluationFault(
                f"it holds an integer of {length:,} bytes; at most {_INTEGER_BYTES_MAX:,} are allowed"
            )
        sign = self.number("B")
        number = int.from_bytes(self.take(length), "little")
        return -number if sign else number

    def _list(self, level: int) -> Value:
        items = [self.term(level + 1) for _ in range(self._count(1))]
        if self.term(level + 1) != []:
            raise EvaluationFault("it holds a list that does not end with the empty list")
        return items

    def _map(self, level: int) -> Value:
        pairs: dict[str, Value] = {}
        for _ in range(self._count(2)):
            key = self.term(level + 1)
            if not isinstance(key, str):
                raise EvaluationFault("it holds a map with a key that is no text")
            pairs[key] = self.term(level + 1)
        return pairs

    def _count(self, bytes_each: int) -> int:
        count = self.number("I")
        if count * bytes_each > len(self._data) - self.at:
            raise struct.error
        return count
