"""URLs without what may be a secret in them: user and password before the host, and the values of the query."""

import re
from typing import Final

from heliograph.settings.secrets import STARS

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
_USERINFO: Final = re.compile(r"(?<=://)[^/?#\s]+(?=@)")
_VALUE: Final = re.compile(r"(?:(?<=^)|(?<=&))([^=&]*=)?([^&]*)")
_SERVER: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s]*/?")
_PLACEHOLDER: Final = re.compile(r"(\$\{[^}]*\})")
PLACEHOLDERS: Final = re.compile(r"(?:\$\{[^}]*\})+")
# In a sentence, where a URL may be wrong in any way: up to the quotation mark or blank behind it.
_SAID_USERINFO: Final = re.compile(r"(?<=://)[^\s\"]+(?=@)")
_SAID_QUERY: Final = re.compile(r"(://[^\s\"?]*\?)[^\s\"]+")


def masked_url(text: str) -> str:
    """A setting with stars for the secrets of a URL, if it is one; placeholders of a query stay."""
    if "://" not in text:
        return text
    shown = _USERINFO.sub(STARS, text)
    place, mark, rest = shown.partition("?")
    if not mark or _URL.fullmatch(shown) is None:
        return shown
    query, hash_mark, fragment = rest.partition("#")
    return f"{place}?{_VALUE.sub(_masked_value, query)}{hash_mark}{fragment}"


def has_url_secret(text: str) -> bool:
    """Whether a setting has one, or stars in its place."""
    return "://" in text and (STARS in text or masked_url(text) != text)


def quoted_url(value: str) -> str:
    """A value that was refused, which may be anything: where it looks like a URL, without what may be a secret."""
    place, mark, rest = value.partition("://")
    if not mark:
        return value
    rest, query_mark, _ = rest.partition("?")
    _, at, host = rest.rpartition("@")
    return f"{place}{mark}{STARS if at else ''}{at}{host}{query_mark}{STARS if query_mark else ''}"


def without_url_secrets(text: str) -> str:
    """A sentence in which URLs have stars before `@` and behind `?`."""
    if "://" not in text:
        return text
    return _SAID_QUERY.sub(rf"\1{STARS}", _SAID_USERINFO.sub(STARS, text))


def masked_template(text: str) -> str:
    """A template with stars for its constant texts, but for the server that a URL begins with."""
    server = _SERVER.match(text)
    if server is not None:
        return server[0] + masked_template(text[server.end() :])
    return "".join(
        STARS if part.strip() and not PLACEHOLDERS.fullmatch(part) else part for part in _PLACEHOLDER.split(text)
    )


def _masked_value(found: re.Match[str]) -> str:
    name, value = found.group(1) or "", found.group(2)
    return found.group(0) if not value or PLACEHOLDERS.fullmatch(value) else f"{name}{STARS}"
