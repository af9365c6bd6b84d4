"""Payloads in the bodies of requests: as text, or in base64."""

import base64
import binascii
from typing import Literal, TypeAlias

from heliograph.management.web.errors import ApiError

Encoding: TypeAlias = Literal["plain", "base64"]


def payload_bytes(payload: str, encoding: Encoding) -> bytes:
    """The bytes of a payload.

    Raises:
        ApiError: 400, it is not base64 where it is said to be.
    """
    if encoding == "plain":
        return payload.encode()
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError(400, "BAD_REQUEST", f"payload: it is no base64: {error}") from error
