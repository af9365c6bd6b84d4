"""Answers over HTTP, and what their bodies say: an object in JSON, or a form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from heliograph.config.backends.http import FORM, JSON

_FIELDS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer.

    Attributes:
        content_type: What the service calls the body; None where it does not say.
    """

    status: int
    content_type: str | None
    body: bytes


def object_of(answer: HttpAnswer, default_type: str = "") -> Mapping[str, object] | None:
    """The names and values of a body; None if it cannot be read.

    Args:
        default_type: What it is where the service does not say.
    """
    content_type = (default_type if answer.content_type is None else answer.content_type).strip().lower()
    try:
        if content_type.startswith(JSON):
            body = msgspec.json.decode(answer.body)
            return body if isinstance(body, dict) else None
        if content_type.startswith(FORM):
            text = answer.body.decode()
            return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_FIELDS_MAX))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return None
