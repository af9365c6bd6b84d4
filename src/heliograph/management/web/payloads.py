"""Payloads in the bodies of requests, and in answers: as text, or in base64."""

import base64
import binascii
from typing import Annotated, Literal, TypeAlias

from fastapi import Query
from typing_extensions import TypedDict

from heliograph.management.web.errors import ApiError

Encoding: TypeAlias = Literal["plain", "base64"]
PayloadQuery = Annotated[Literal["base64", "plain", "none"], Query(description="How payloads are shown")]


class ShownPayload(TypedDict, total=False):
    payload: str


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


def shown_payload(payload: bytes, how: str) -> ShownPayload:
    """The payload of a message as `PayloadQuery` has it; no key for `none`."""
    if how == "none":
        return {}
    return {"payload": payload.decode("utf-8", "replace") if how == "plain" else base64.b64encode(payload).decode()}
