"""Functions of bits. Integers are signed and have no bounds; the first bit of a string has the position 1."""

import struct
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.values import UNDEFINED, Bits, Value, bytes_of, describe, string_of

FAMILY: Final = Family("Bits")

# Beyond them an integer takes longer to make, or to divide by, than a sender should be able to demand.
_SHIFT_MAX: Final = 65_536
_INTEGER_BITS_MAX: Final = 131_072
_FLOATS: Final = {16: "e", 32: "f", 64: "d"}


@FAMILY.function("I one, I other", "I")
def bitand(one: int, other: int) -> Value:
    """The bits that both have."""
    return one & other


@FAMILY.function("I one, I other", "I")
def bitor(one: int, other: int) -> Value:
    """The bits that either has."""
    return one | other


@FAMILY.function("I one, I other", "I")
def bitxor(one: int, other: int) -> Value:
    """The bits that just one of them has."""
    return one ^ other


@FAMILY.function("I number", "I")
def bitnot(number: int) -> Value:
    """Every bit the other way: 5 gives -6."""
    return ~number


@FAMILY.function("I number, I by", "I")
def bitsl(number: int, by: int) -> Value:
    """The bits moved to the left; a negative count moves them to the right."""
    return _shifted(number, by)


@FAMILY.function("I number, I by", "I")
def bitsr(number: int, by: int) -> Value:
    """The bits moved to the right; a negative count moves them to the left."""
    return _shifted(number, -by)


def _shifted(number: int, by: int) -> int:
    if by > _SHIFT_MAX:
        raise EvaluationFault(f"at most {_SHIFT_MAX:,} places, not {by}")
    if number.bit_length() + by > _INTEGER_BITS_MAX:
        raise EvaluationFault(f"an integer of more than {_INTEGER_BITS_MAX:,} bits would come out")
    return number << by if by >= 0 else number >> -by


@FAMILY.function("X string", "I")
def bitsize(string: str | bytes | Bits) -> Value:
    """How many bits the string has."""
    return string.length if isinstance(string, Bits) else 8 * len(bytes_of(string))


@FAMILY.function("X string, I start_or_length[, I length[, S kind[, S sign[, S endian]]]]", "V")
def subbits(
    string: str | bytes | Bits,
    start: int,
    length: int | None = None,
    kind: str | bytes = "integer",
    sign: str | bytes = "unsigned",
    endian: str | bytes = "big",
) -> Value:
    """Bits of a string as an integer, a 'float' or 'bits': so many, or so many from a position (start, length).

    Undefined where the string has no bit at that position.
    """
    if length is None:
        start, length = 1, start
    _check_options(kind, sign, endian)
    if length < 0:
        raise EvaluationFault("the length must be 0 or more")
    data = string.filled() if isinstance(string, Bits) else bytes_of(string)
    size = string.length if isinstance(string, Bits) else 8 * len(data)
    if not 1 <= start <= size:
        return UNDEFINED
    length = min(length, size - start + 1)
    if kind == "integer" and length > _INTEGER_BITS_MAX:
        raise EvaluationFault(f"an integer of {length:,} bits is longer than the {_INTEGER_BITS_MAX:,} allowed")
    bits = _bits(data, start - 1, length)
    if kind == "bits":
        return _string_of_bits(bits, length)
    if kind == "float":
        return _float_of_bits(bits, length, "big" if endian == "big" else "little")
    if endian == "little":
        bits = _swapped(bits, length)
    return bits - (1 << length) if sign == "signed" and length and bits >> (length - 1) else bits


def _check_options(kind: Value, sign: Value, endian: Value) -> None:
    for value, valid in (
        (kind, ("integer", "float", "bits")),
        (sign, ("unsigned", "signed")),
        (endian, ("big", "little")),
    ):
        if value not in valid:
            raise EvaluationFault(f"{describe(value)} is not one of {', '.join(valid)}")


def _bits(data: bytes, first: int, length: int) -> int:
    piece = data[first // 8 : (first + length + 7) // 8]
    behind = 8 * len(piece) - first % 8 - length
    return (int.from_bytes(piece, "big") >> behind) & ((1 << length) - 1)


def _swapped(bits: int, length: int) -> int:
    """The bits of a number whose lowest byte comes first; an incomplete byte is the highest."""
    whole, rest = divmod(length, 8)
    low = int.from_bytes((bits >> rest).to_bytes(whole, "big"), "little")
    return low | (bits & ((1 << rest) - 1)) << (8 * whole)


def _string_of_bits(bits: int, length: int) -> Value:
    return Bits(bits, length) if length % 8 else string_of(bits.to_bytes(length // 8, "big"))


def _float_of_bits(bits: int, length: int, endian: str) -> Value:
    code = _FLOATS.get(length)
    if code is None:
        raise EvaluationFault(f"a float has 16, 32 or 64 bits, not {length}")
    (number,) = struct.unpack((">" if endian == "big" else "<") + code, bits.to_bytes(length // 8, "big"))
    if number != number or number in (float("inf"), float("-inf")):
        raise EvaluationFault("the bits are no finite float")
    return float(number)
