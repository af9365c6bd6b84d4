"""Functions that compress and expand. What is expanded may not become larger than a message can be."""

import gzip as gzip_format
import zlib
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.values import Value, bytes_of, string_of

FAMILY: Final = Family("Compression")

# A kilobyte can expand to a megabyte; a sender must not be able to fill memory and time with it.
_EXPANDED_MAX: Final = 16 << 20
_RAW: Final = -15
_ZLIB: Final = 15
_GZIP: Final = 31


def _compressed(string: str | bytes, window_bits: int) -> Value:
    packer = zlib.compressobj(wbits=window_bits)
    return string_of(packer.compress(bytes_of(string)) + packer.flush())


def _expanded(string: str | bytes, window_bits: int) -> Value:
    unpacker = zlib.decompressobj(wbits=window_bits)
    try:
        data = unpacker.decompress(bytes_of(string), _EXPANDED_MAX)
    except zlib.error as error:
        raise EvaluationFault(f"the data is corrupt: {error}") from None
    if unpacker.unconsumed_tail:
        raise EvaluationFault(f"more than {_EXPANDED_MAX >> 20} MiB would come out")
    if not unpacker.eof:
        raise EvaluationFault("the data is corrupt: it ends too early")
    return string_of(data)


@FAMILY.function("S string", "S")
def gzip(string: str | bytes) -> Value:
    """The string compressed in the format of gzip."""
    return string_of(gzip_format.compress(bytes_of(string), mtime=0))


@FAMILY.function("S string", "S")
def gunzip(string: str | bytes) -> Value:
    """The string that gzip has compressed."""
    return _expanded(string, _GZIP)


@FAMILY.function("S string", "S", name="zip")
def zip_raw(string: str | bytes) -> Value:
    """The string compressed as raw deflate, without header and checksum."""
    return _compressed(string, _RAW)


@FAMILY.function("S string", "S")
def unzip(string: str | bytes) -> Value:
    """The string that zip has compressed."""
    return _expanded(string, _RAW)


@FAMILY.function("S string", "S")
def zip_compress(string: str | bytes) -> Value:
    """The string compressed in the format of zlib."""
    return _compressed(string, _ZLIB)


@FAMILY.function("S string", "S")
def zip_uncompress(string: str | bytes) -> Value:
    """The string that zip_compress has compressed."""
    return _expanded(string, _ZLIB)
