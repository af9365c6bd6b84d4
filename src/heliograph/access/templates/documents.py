"""JSON and filters of document databases: values of the configuration whose texts are templates, at any depth."""

from collections.abc import Collection
from typing import Final, TypeAlias

import orjson

from heliograph.access.templates.template import Template, TemplateError
from heliograph.access.templates.values import Values

Document: TypeAlias = "dict[str, Document] | list[Document] | str | int | float | bool | None"

_Prepared: TypeAlias = "list[tuple[Template, _Prepared]] | tuple[_Prepared, ...] | Template | int | float | None"
_OPERATOR: Final = "$"


class DocumentTemplate:
    """A document whose texts and keys are templates; numbers, booleans and null stay as they are.

    Attributes:
        unknown: Names that are not allowed, for a warning.
    """

    def __init__(self, document: Document, names: Collection[str]) -> None:
        self.names: list[str] = []
        self.unknown: list[str] = []
        self._allowed = names
        self._prepared = self._prepare(document)

    def render(self, values: Values) -> Document:
        """Every value that was inserted is (a part of) a text."""
        return _rendered(self._prepared, values, False)

    def json(self, values: Values) -> bytes:
        try:
            return orjson.dumps(self.render(values))
        except (TypeError, orjson.JSONEncodeError):
            raise TemplateError("a value is not UTF-8, which JSON cannot say") from None

    def query(self, values: Values) -> Document:
        """Raises `TemplateError` if a value would make a key an operator, or name another field."""
        return _rendered(self._prepared, values, True)

    def _prepare(self, document: Document) -> _Prepared:
        if isinstance(document, str):
            return self._template(document)
        if isinstance(document, dict):
            return [(self._template(key), self._prepare(value)) for key, value in document.items()]
        if isinstance(document, list):
            return tuple(self._prepare(value) for value in document)
        return document

    def _template(self, text: str) -> Template:
        template = Template(text, self._allowed)
        self.names += template.names
        self.unknown += template.unknown
        return template


def _rendered(prepared: _Prepared, values: Values, is_query: bool) -> Document:
    if isinstance(prepared, Template):
        return prepared.render(values)
    if isinstance(prepared, list):
        return {
            key.render(values, _field if is_query else None): _rendered(value, values, is_query)
            for key, value in prepared
        }
    if isinstance(prepared, tuple):
        return [_rendered(value, values, is_query) for value in prepared]
    return prepared


def _field(value: str) -> str:
    if _OPERATOR in value or "." in value or "\0" in value:
        raise TemplateError("a value would make the name of a field an operator or another field")
    return value
