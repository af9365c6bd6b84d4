"""Rows of nodes as the API answers them: objects and schemas that are made of the declarations of their structs."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Final, NotRequired, Union, get_args, get_origin

import msgspec
from pydantic import Field
from typing_extensions import TypedDict

from heliograph.control.columns import Column, Fact, FactKind, answers_of, fact_of
from heliograph.management.web.paging import CursorMeta, PageOf
from heliograph.management.web.times import rfc3339

ATTRIBUTE: Final = re.compile(r"^    (\S+): (.+(?:\n     +.+)*)$", re.MULTILINE)
"""One attribute in a docstring, and what that says of it."""


class ApiRow:
    """A kind of row: called with a row, it makes the object that stands for it in the API.

    A field has its own name there, unless its `Fact` says otherwise; structs in it are objects. The document of the
    API takes the words from the docstring of the struct.

    Args:
        name: Of the schema in the document.
        row: The struct.
        without: Fields that the API does not show here.
        time_text: Makes the text of a time in microseconds.
        more: Keys that a route adds, with their types.
    """

    def __init__(
        self,
        name: str,
        row: type[msgspec.Struct],
        without: Collection[str] = (),
        time_text: Callable[[int], str] = rfc3339,
        **more: object,
    ) -> None:
        self.name = name
        self._row = row
        self._without = without
        self._time_text = time_text
        self._more = more

    @cached_property
    def _facts(self) -> dict[str, tuple[msgspec.structs.FieldInfo, Fact, Any]]:
        """Each field by its key in the API, with what is declared of it, and its type."""
        found = {}
        for field in msgspec.structs.fields(self._row):
            fact, kind = fact_of(field)
            if fact.is_shown and field.name not in self._without:
                found[fact.name or field.encode_name] = field, fact, kind
        return found

    @cached_property
    def _answer(self) -> Callable[[object], Any]:
        return answers_of({name: self._column(name, *of) for name, of in self._facts.items()}, self._time_text)

    def __call__(self, row: msgspec.Struct, **more: object) -> dict[str, Any]:
        """The object of a row, with the keys that the route adds."""
        found: dict[str, Any] = msgspec.to_builtins(self._answer(row))
        return found | more

    @cached_property
    def schema(self) -> Any:
        """A `TypedDict` of the objects, for the document."""
        words, _, attributes = (inspect.getdoc(self._row) or "").partition("\n\nAttributes:\n")
        described = {name: " ".join(text.split()) for name, text in ATTRIBUTE.findall(attributes)}
        keys: dict[str, Any] = {}
        for name, (field, fact, kind) in self._facts.items():
            keys[name] = Annotated[_type(fact, kind), Field(description=described.get(field.name))]
            if fact.is_left_out:
                keys[name] = NotRequired[keys[name]]
        return typed_dict(self.name, words, keys | self._more)

    def _column(self, name: str, field: msgspec.structs.FieldInfo, fact: Fact, kind: Any) -> Column:
        answered, nested = fact.answered, _nested(kind)
        if answered is None and nested is not None:
            of_one = ApiRow(nested.__name__, nested, time_text=self._time_text)
            answered = of_one if nested is kind or NoneType in get_args(kind) else partial(_each, of_one)
        return Column(
            name,
            name,
            FactKind.TIME if fact.time_us else FactKind.TEXT,
            field=field.name,
            unknown=msgspec.UNSET if fact.is_left_out else fact.unknown,
            answered=answered,
            time_us=fact.time_us,
            is_null_if_empty=fact.is_null_if_empty,
        )

    def one(self) -> Any:
        """The type of an answer that is one row, for the document."""
        return self.schema

    def rows(self) -> Any:
        """The type of a list of rows, for the document."""
        return list_of(self.schema)

    def page(self) -> Any:
        """The type of a page of rows, for the document."""
        return pages_of(self.schema)

    def listed(self, name: str, meta: Mapping[str, object] | None = None) -> Callable[[], Any]:
        """What makes the type of rows with something about them, for the document.

        Args:
            meta: The keys of that, with their types, if any; by default those of a list with a cursor.
        """
        return partial(self._listed, name, meta)

    def _listed(self, name: str, keys: Mapping[str, object] | None) -> Any:
        meta = CursorMeta if keys is None else typed_dict(f"{name}Meta", None, keys)
        whole = {"data": self.rows()} | ({} if keys == {} else {"meta": meta})
        return typed_dict(name, "Rows, and what there is to know of them.", whole)


def list_of(kind: object) -> Any:
    """The type of a list of what is declared, which no checker knows."""
    return GenericAlias(list, (kind,))


def pages_of(kind: object) -> Any:
    """The type of a page of what is declared."""
    page: Any = PageOf
    return page[kind]


def typed_dict(name: str, words: str | None, keys: Mapping[str, Any]) -> Any:
    """A `TypedDict` whose keys are made of declarations, with what the document says of it."""
    types = {key: kind.schema if isinstance(kind, ApiRow) else kind for key, kind in keys.items()}
    made: Any = TypedDict(name, types)  # type: ignore[misc]  # it is made of a declaration
    made.__doc__ = words
    return made


def _each(of_one: ApiRow, rows: Collection[msgspec.Struct]) -> list[dict[str, Any]]:
    return [of_one(row) for row in rows]


def _nested(kind: Any) -> Any:
    """The struct of which a value is, or which it has in a list; None where it is of no struct."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    for one in get_args(kind):
        if (found := _nested(one)) is not None:
            return found
    return None


def _type(fact: Fact, kind: Any) -> Any:
    """The type of a value in the API."""
    is_optional = NoneType in get_args(kind)
    if fact.time_us:
        kind = str | None if is_optional else str
    if fact.answers is not None:
        kind = fact.answers
    if isinstance(fact.unknown, str):
        kind = _without_none(kind) | str
    if fact.is_null_if_empty:
        kind = kind | None
    return _documented(_without_none(kind) if fact.is_left_out else kind)


def _without_none(kind: Any) -> Any:
    rest = tuple(one for one in get_args(kind) if one is not NoneType)
    return Union[rest] if get_origin(kind) in (Union, UnionType) else kind  # noqa: UP007 - of a list that is made here


def _documented(kind: Any) -> Any:
    """A type with a `TypedDict` in the place of each struct, and a list in the place of each tuple."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return ApiRow(kind.__name__, kind).schema
    origin, inner = get_origin(kind), tuple(_documented(one) for one in get_args(kind) if one is not Ellipsis)
    if not inner:
        return kind
    if origin in (Union, UnionType):
        return Union[inner]  # noqa: UP007 - of a list that is made here
    of_origin: Any = list if origin is tuple else origin
    return of_origin[inner]
