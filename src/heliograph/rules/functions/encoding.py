"""Functions that encode, decode and hash."""

import base64
import binascii
import hashlib
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.values import Value, bytes_of, string_of

FAMILY: Final = Family("Encoding and hashes")


@FAMILY.function("V value", "S")
def json_encode(value: Value) -> Value:
    """The compact JSON text of any value."""
    return encode_json(value)


@FAMILY.function("S text", "V")
def json_decode(text: str | bytes) -> Value:
    """The value that a JSON text holds."""
    return decode_json(text)


@FAMILY.function("S string", "S")
def base64_encode(string: str | bytes) -> Value:
    """The string in base64, with padding."""
    return base64.b64encode(bytes_of(string)).decode()


@FAMILY.function("S text", "S")
def base64_decode(text: str | bytes) -> Value:
    """The string that a base64 text holds."""
    try:
        return string_of(base64.b64decode(bytes_of(text), validate=True))
    except binascii.Error as error:
        raise EvaluationFault(f"{error}") from None


@FAMILY.function("S string", "S")
def md5(string: str | bytes) -> Value:
    """The MD5 hash in lower-case hexadecimal digits."""
    return hashlib.md5(bytes_of(string), usedforsecurity=False).hexdigest()


@FAMILY.function("S string", "S")
def sha(string: str | bytes) -> Value:
    """The SHA-1 hash in lower-case hexadecimal digits."""
    return hashlib.sha1(bytes_of(string), usedforsecurity=False).hexdigest()


@FAMILY.function("S string", "S")
def sha256(string: str | bytes) -> Value:
    """The SHA-256 hash in lower-case hexadecimal digits."""
    return hashlib.sha256(bytes_of(string)).hexdigest()
