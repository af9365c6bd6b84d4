"""Bounded copies of texts that clients choose: a client id may have 65,535 bytes, and thousands are kept."""

import hashlib
import re
from typing import Final

_CHARS_MAX: Final = 200
_TOKEN: Final = re.compile(r"(eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.)[A-Za-z0-9_-]+")


def short_text(text: str, chars_max: int = _CHARS_MAX) -> str:
    """A text, or of a longer one its beginning and a hash of all of it, so that two that differ stay apart."""
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}~{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


def shown_username(username: str | None) -> str | None:
    """A user name as people may see it: of a token (a JWT with `from = username`) all but its signature."""
    found = None if username is None else _TOKEN.fullmatch(username)
    return username if found is None else f"{found[1]}******"
