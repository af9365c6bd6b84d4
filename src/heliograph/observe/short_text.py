"""Bounded copies of texts that clients choose: a client id may have 65,535 bytes, and thousands are kept."""

import hashlib
from typing import Final

_CHARS_MAX: Final = 200


def short_text(text: str, chars_max: int = _CHARS_MAX) -> str:
    """A text, or of a longer one its beginning and a hash of all of it, so that two that differ stay apart."""
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}~{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
