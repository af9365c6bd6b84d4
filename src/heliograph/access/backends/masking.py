"""Texts of errors without the secrets that a library may have put into them."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus

from heliograph.observe.short_text import short_text
from heliograph.settings.secrets import STARS

_TEXT_MAX: Final = 500


def masked(text: str, secrets: Iterable[str]) -> str:
    """A text as one line of bounded length, with stars for each secret, also where it is quoted or part of a URL."""
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, STARS)
    return short_text(" ".join(text.split()), _TEXT_MAX)


def _forms(secret: str) -> tuple[str, ...]:
    return secret, repr(secret)[1:-1], repr(secret.encode())[2:-1], quote(secret, safe=""), quote_plus(secret)
