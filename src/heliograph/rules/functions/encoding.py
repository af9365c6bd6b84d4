"""Functions that encode, decode, hash, compress and expand. Nothing expands to more than a message can hold."""

import base64
import binascii
import gzip as gzip_format
import hashlib
import re
import zlib
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.terms import decode_term, encode_term
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.values import Bits, Value, bytes_of, describe, string_of

ENCODING: Final = Family("Encoding and hashes")

_BLANKS: Final = b" \t\r\n"
_HEX: Final = re.compile(rb"[0-9A-Fa-f]*")
_OTHER_NAMES: Final[dict[str | bytes, str]] = {"sha": "sha1", "shake128": "shake_128", "shake256": "shake_256"}
_SHAKE_BYTES: Final = {"shake_128": 16, "shake_256": 32}
_ALGORITHMS: Final = (
    "md4",
    "md5",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha3_224",
    "sha3_256",
    "sha3_384",
    "sha3_512",
    "shake128",
    "shake256",
    "blake2b",
    "blake2s",
)
_NAMES: Final = {*_ALGORITHMS, *_SHAKE_BYTES}


@ENCODING.function("V value", "S")
def json_encode(value: Value) -> Value:
    """The compact JSON text of any value."""
    return encode_json(value)


@ENCODING.function("S text", "V")
def json_decode(text: str | bytes) -> Value:
    """The value that a JSON text holds."""
    return decode_json(text)


@ENCODING.function("S string[, V option[, V other]]", "S")
def base64_encode(string: str | bytes, *options: Value) -> Value:
    """The string in base64; the options 'urlsafe' and 'no_padding' choose the other alphabet and leave out the =."""
    encode = base64.urlsafe_b64encode if "urlsafe" in options else base64.b64encode
    text = encode(bytes_of(string)).decode()
    return text.rstrip("=") if "no_padding" in options else text


@ENCODING.function("S text[, V option[, V other]]", "S")
def base64_decode(text: str | bytes, *options: Value) -> Value:
    """The string that a base64 text holds, in which blanks do not count; the options are those of base64_encode."""
    data = bytes_of(text).translate(None, _BLANKS)
    if "no_padding" in options:
        data += b"=" * (-len(data) % 4)
    try:
        return string_of(base64.b64decode(data, altchars=b"-_" if "urlsafe" in options else None, validate=True))
    except (binascii.Error, ValueError) as error:
        raise EvaluationFault(f"{error}") from None


@ENCODING.function("X string[, S prefix]", "S")
def bin2hexstr(string: str | bytes | Bits, prefix: str | bytes = "") -> Value:
    """The bytes of the string in upper-case hexadecimal digits, behind a prefix if there is one."""
    return string_of(bytes_of(prefix) + _hex_digits(string).encode())


def _hex_digits(string: str | bytes | Bits) -> str:
    # Bits get zeros in front, up to a whole digit of four.
    return f"{string.number:0{-(-string.length // 4)}X}" if isinstance(string, Bits) else bytes_of(string).hex().upper()


@ENCODING.function("S text[, S prefix]", "S")
def hexstr2bin(text: str | bytes, prefix: str | bytes = "") -> Value:
    """The string whose bytes the hexadecimal digits behind the prefix say; an odd number of them gets a 0 in front."""
    data, front = bytes_of(text), bytes_of(prefix)
    if not data.startswith(front):
        raise EvaluationFault(f"{describe(text)} does not begin with {describe(prefix)}")
    digits = data[len(front) :]
    if _HEX.fullmatch(digits) is None:
        raise EvaluationFault(f"{describe(text)} holds something else than hexadecimal digits")
    return string_of(bytes.fromhex(("0" * (len(digits) % 2)) + digits.decode()))


@ENCODING.function("X string", "S")
def sqlserver_bin2hexstr(string: str | bytes | Bits) -> Value:
    """As bin2hexstr with the prefix 0x."""
    return f"0x{_hex_digits(string)}"


@ENCODING.function("S string", "S")
def md5(string: str | bytes) -> Value:
    """The MD5 hash in lower-case hexadecimal digits."""
    return hashlib.md5(bytes_of(string), usedforsecurity=False).hexdigest()


@ENCODING.function("S string", "S")
def sha(string: str | bytes) -> Value:
    """The SHA-1 hash in lower-case hexadecimal digits."""
    return hashlib.sha1(bytes_of(string), usedforsecurity=False).hexdigest()


@ENCODING.function("S string", "S")
def sha256(string: str | bytes) -> Value:
    """The SHA-256 hash in lower-case hexadecimal digits."""
    return hashlib.sha256(bytes_of(string)).hexdigest()


@ENCODING.function("S algorithm, S string", "S", name="hash")
def hash_with(algorithm: str | bytes, string: str | bytes) -> Value:
    """A hash in lower-case hexadecimal digits: md5, sha, sha224 to sha512, sha3_224 to sha3_512, blake2b and others."""
    name = _OTHER_NAMES.get(algorithm, algorithm)
    if not isinstance(name, str) or name not in _NAMES:
        raise EvaluationFault(f"{describe(algorithm)} is not one of {', '.join(_ALGORITHMS)}")
    try:
        digest = hashlib.new(name, bytes_of(string), usedforsecurity=False)
    except ValueError:
        raise EvaluationFault(f"the cryptographic library of this machine has no {name}") from None
    length = _SHAKE_BYTES.get(name)
    if length is None:
        return digest.hexdigest()
    return str(digest.hexdigest(length))  # type: ignore[call-arg]  # those of variable length take it


@ENCODING.function("V value", "S")
def term_encode(value: Value) -> Value:
    """The value in Erlang's external term format."""
    return string_of(encode_term(value))


@ENCODING.function("S string", "V")
def term_decode(string: str | bytes) -> Value:
    """The value that a string in Erlang's external term format holds."""
    return decode_term(bytes_of(string))


COMPRESSION: Final = Family("Compression")

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


@COMPRESSION.function("S string", "S")
def gzip(string: str | bytes) -> Value:
    """The string compressed in the format of gzip."""
    return string_of(gzip_format.compress(bytes_of(string), mtime=0))


@COMPRESSION.function("S string", "S")
def gunzip(string: str | bytes) -> Value:
    """The string that gzip has compressed."""
    return _expanded(string, _GZIP)


@COMPRESSION.function("S string", "S", name="zip")
def zip_raw(string: str | bytes) -> Value:
    """The string compressed as raw deflate, without header and checksum."""
    return _compressed(string, _RAW)


@COMPRESSION.function("S string", "S")
def unzip(string: str | bytes) -> Value:
    """The string that zip has compressed."""
    return _expanded(string, _RAW)


@COMPRESSION.function("S string", "S")
def zip_compress(string: str | bytes) -> Value:
    """The string compressed in the format of zlib."""
    return _compressed(string, _ZLIB)


@COMPRESSION.function("S string", "S")
def zip_uncompress(string: str | bytes) -> Value:
    """The string that zip_compress has compressed."""
    return _expanded(string, _ZLIB)
