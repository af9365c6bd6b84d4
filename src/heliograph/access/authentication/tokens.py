"""Signed tokens in their compact form (RFC 7515): three texts in Base64 with points between."""

import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from heliograph.access.authentication.jwt_keys import VerifyingKey

_COMPACT: Final = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)\.([A-Za-z0-9_-]+)")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_PADDING: Final = (b"", b"", b"==", b"=")  # by length modulo 4; one character too many is refused by the decoder
_TOKEN_BYTES_MAX: Final = 65_535


class SignedToken:
    """A token whose signature is not checked yet.

    Attributes:
        algorithm: What its header says that it was signed with.
    """

    def __init__(self, algorithm: str, signed: bytes, signature: bytes, payload: bytes) -> None:
        self.algorithm = algorithm
        self._signed = signed
        self._signature = signature
        self._payload = payload

    def is_of(self, key: VerifyingKey) -> bool:
        """Whether it was signed with a key."""
        return key.verifies(self.algorithm, self._signed, self._signature)

    def claims(self) -> Mapping[str, Any] | None:
        """What it says, None if that is no JSON object."""
        try:
            claims = msgspec.json.decode(_decoded(self._payload))
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        return claims if isinstance(claims, dict) else None

    def __repr__(self) -> str:
        return f"SignedToken({self.algorithm!r})"


def read_token(data: bytes) -> SignedToken | None:
    """The token that bytes are, None if they are no token that could be checked."""
    if len(data) > _TOKEN_BYTES_MAX:
        return None
    parts = _COMPACT.fullmatch(data)
    if parts is None:
        return None
    try:
        header = msgspec.json.decode(_decoded(parts[1]))
        signature = _decoded(parts[3])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # What is critical (RFC 7515 section 4.1.11) must be understood, and nothing is.
    if not isinstance(header, dict) or "crit" in header or not isinstance(header.get("alg"), str):
        return None
    return SignedToken(header["alg"], data[: parts.end(2)], signature, parts[2])


def _decoded(part: bytes) -> bytes:
    """Base64 with the alphabet of URLs and without padding.

    Raises:
        ValueError: It is not one.
    """
    return binascii.a2b_base64(part.translate(_STANDARD) + _PADDING[len(part) % 4], strict_mode=True)
