"""URLs and forms: what a client brings is encoded by the rules of forms, in a path too."""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import SplitResult, quote_plus, urlsplit

from heliograph.access.templates.template import Template, TemplateError
from heliograph.access.templates.values import Values

_URL_LENGTH_MAX: Final = 65_536  # the most that httpx sends
_DOTS: Final = (".", "..")


class UrlTemplate:
    """A URL whose path and query may hold placeholders.

    Attributes:
        base: Scheme, host and port.
        unknown: Names that are not allowed, for a warning.

    Raises:
        TemplateError: It is no URL of HTTP, names a user, has a fragment, or a placeholder before its path.
    """

    def __init__(self, url: str, names: Collection[str]) -> None:
        parts = _parts_of(url)
        self.base = f"{parts.scheme}://{parts.netloc}"
        if Template(self.base, names).names:
            raise TemplateError("a placeholder may stand in the path and the query of a URL, and not in its host")
        self._path = Template(parts.path or "/", names)
        self._query = Template(parts.query, names)
        self.names = [*self._path.names, *self._query.names]
        self.unknown = [*self._path.unknown, *self._query.unknown]

    def render(self, values: Values, more_query: str = "") -> str:
        """`TemplateError` if a value names a folder above, or the URL gets too long. `more_query` follows the query."""
        path = self._path.render(values, _encoded)
        if self._path.names and any(segment in _DOTS for segment in path.split("/")):
            raise TemplateError("a value would make a segment of the URL's path '.' or '..'")
        query = "&".join(part for part in (self._query.render(values, _encoded), more_query) if part)
        url = f"{self.base}{path}?{query}" if query else self.base + path
        if len(url) > _URL_LENGTH_MAX:
            raise TemplateError("the values of a client make the URL longer than can be sent")
        return url


class FormTemplate:
    """A form (`a=1&b=2`), whose names and values may hold placeholders."""

    def __init__(self, fields: Mapping[str, str], names: Collection[str]) -> None:
        self._fields = [(Template(name, names), Template(value, names)) for name, value in fields.items()]
        self.names = [name for pair in self._fields for template in pair for name in template.names]
        self.unknown = [name for pair in self._fields for template in pair for name in template.unknown]

    def render(self, values: Values) -> str:
        return "&".join(
            f"{_encoded(name.render(values))}={_encoded(value.render(values))}" for name, value in self._fields
        )


def header_value(value: str) -> str:
    """`TemplateError` if a value would end the header, or is not UTF-8."""
    if any((character < " " and character != "\t") or character == "\x7f" for character in value):
        raise TemplateError("a value with control characters cannot stand in a header")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise TemplateError("a value that is not UTF-8 cannot stand in a header")
    return value


def _encoded(value: str) -> str:
    return quote_plus(value.encode("utf-8", "surrogateescape"))


def _parts_of(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TemplateError(f"{url!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise TemplateError(f"{url!r} is no URL of the form http(s)://HOST[:PORT]/PATH")
    if "@" in parts.netloc:
        raise TemplateError("the URL names a user or a password; a header is the place for them")
    if parts.fragment or url.endswith("#"):
        raise TemplateError(f"{url!r} has a fragment (#...), which no server gets")
    return parts
