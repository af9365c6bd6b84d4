"""JSON Schema 2020-12 of groups of settings, made of their declarations.

It describes the preferred form of each value: durations, sizes and rates are texts with units (or the plain integers
that files may hold), and a word that switches a limit off is one alternative. Numbers and booleans in quotes, which a
file may hold too, are not described. Keywords of our own begin with `x-`: `x-kind` says what a value means, such as
`duration`, `x-word` marks the alternative that is a word, `x-path` is where the setting stands (`NAME` and `N` for
names and positions), `x-how` how a change takes effect, `x-expected` what is valid, in the words of error messages,
`x-minimum` and `x-maximum` are bounds with units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Final, TypeAlias

from heliograph.settings.addresses import ServerAddress, ServerAddresses
from heliograph.settings.fields import (
    AnyKind,
    How,
    ListOf,
    ListOfSections,
    ListOfVariants,
    Named,
    Overlays,
    Section,
    Setting,
    settings_of,
)
from heliograph.settings.kinds import (
    NAME,
    Anything,
    Boolean,
    Choice,
    Duration,
    FilterText,
    Integer,
    Kind,
    Number,
    OrTemplate,
    RefusedError,
    SecretText,
    Size,
    Switch,
    Text,
    Texts,
    TopicFilters,
    Unless,
    Words,
)

Shape: TypeAlias = dict[str, Any]

DURATION_PATTERN: Final = r"(?:(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[mM][sS]|[smhdwfSMHDWF]))+"
SIZE_PATTERN: Final = r"[0-9]+(?:[kKmMgG]?[bB])"
_NOT_BLANK: Final = r"(?s).*\S.*"  # what `Text` matches without a pattern
_ANY_TEXT: Final = r"(?s).*"
_ENABLE: Final = "enable"


@singledispatch
def shape_of(kind: Kind[Any]) -> Shape:
    """What a kind accepts, as JSON Schema; kinds of other packages register theirs with `shape_of.register`."""
    raise TypeError(f"{type(kind).__name__} has no JSON Schema")


@dataclass(frozen=True, slots=True)
class SettingPlace:
    """Where a group stands, and what it has from there.

    Attributes:
        how: How its settings change that do not say it themselves; None at the root, whose settings all do.
        has_defaults: Whether what a file leaves out has its default; a group of an overlay has the root group's value.
    """

    path: str = ""
    how: How | None = None
    has_defaults: bool = True

    def below(self, name: str, how: How | None = None) -> SettingPlace:
        """The place of something in the group."""
        return replace(self, path=f"{self.path}.{name}" if self.path else name, how=how or self.how)


def group_shape(model: type[Any], place: SettingPlace) -> Shape:
    """A group of settings, and the groups within it, as the schema of an object."""
    settings = settings_of(model)
    described = {name: _setting_shape(setting, place.below(name, setting.how)) for name, setting in settings.items()}
    shape: Shape = {"type": "object", "properties": described, "additionalProperties": False}
    needed = [name for name, setting in settings.items() if setting.is_required]
    return {**shape, "required": needed} if needed else shape


def _setting_shape(setting: Setting, place: SettingPlace) -> Shape:
    kind = setting.kind
    shape = _any_shape(kind, place)
    if isinstance(kind, Kind | ListOf):
        shape["x-expected"] = kind.expected
        if place.has_defaults and _has_written_default(setting, kind):
            shape["default"] = kind.plain(setting.default)
        if setting.is_secret:
            shape["writeOnly"] = True
    if not isinstance(kind, Section) and place.how is not None:
        shape["x-how"] = str(place.how)
    return {"description": setting.description, **shape, "x-path": place.path}


def _has_written_default(setting: Setting, kind: Kind[Any] | ListOf[Any]) -> bool:
    """Whether a file can say the default: an empty text may stand for what was not given, and be refused."""
    if setting.is_required or (setting.default is None and not isinstance(kind, Unless)):
        return False
    if setting.default != "" or isinstance(kind, ListOf):
        return True
    try:
        kind.convert("")
    except RefusedError:
        return False
    return True


def _any_shape(kind: AnyKind, place: SettingPlace) -> Shape:
    if isinstance(kind, Section):
        shape = group_shape(kind.model, place)
        if kind.has_switch:
            path = place.below(_ENABLE).path
            switch: Shape = {"type": "boolean", "description": "Whether it is there.", "x-path": path}
            if place.how is not None:
                switch["x-how"] = str(place.how)
            shape["properties"] = {_ENABLE: switch, **shape["properties"]}
        return shape
    if isinstance(kind, Named | Overlays):
        each = replace(place.below("NAME"), has_defaults=isinstance(kind, Named))
        names = _matching(NAME.pattern)
        return {"type": "object", "propertyNames": names, "additionalProperties": group_shape(kind.model, each)}
    if isinstance(kind, ListOfSections):
        return {"type": "array", "items": group_shape(kind.model, place.below("N"))}
    if isinstance(kind, ListOfVariants):
        return {"type": "array", "items": _variants_shape(kind, place)}
    if isinstance(kind, ListOf):
        shape = {"type": "array", "items": shape_of(kind.kind)}
        return {**shape, "minItems": kind.at_least} if kind.at_least else shape
    return shape_of(kind)


def _variants_shape(kind: ListOfVariants, place: SettingPlace) -> Shape:
    if kind.described_at:
        return {"$ref": "#/properties/" + "/properties/".join(kind.described_at.split(".")) + "/items"}
    shapes = []
    for model in kind.models:
        shape = group_shape(model, place.below(f"N[{kind.name_of(model)}]"))
        own = [tag for tag in kind.tags if tag in shape["properties"]]
        for tag in own:
            shape["properties"][tag]["const"] = settings_of(model)[tag].default
        shapes.append({"title": kind.name_of(model), **shape, "required": [*own, *shape.get("required", ())]})
    return {"oneOf": shapes}


def text_shape(pattern: str, **more: object) -> Shape:
    """A text that matches a pattern as a whole."""
    return {"type": "string", **_matching(pattern), **more}


def alternatives(*shapes: Shape) -> Shape:
    """One of several shapes."""
    return {"anyOf": list(shapes)}


@shape_of.register
def _(kind: Boolean) -> Shape:
    return {"type": "boolean"}


@shape_of.register
def _(kind: Integer) -> Shape:
    return {"type": "integer", **_bounds(kind.minimum, kind.maximum)}


@shape_of.register
def _(kind: Number) -> Shape:
    return {"type": "number", **_bounds(kind.minimum, None)}


@shape_of.register
def _(kind: Text) -> Shape:
    pattern = kind.pattern.pattern
    if pattern == _NOT_BLANK:
        return {"type": "string", "pattern": r"\S"}
    # JSON Schema has no flags; of our patterns, those with this one hold no dot that it would matter to.
    return {"type": "string"} if pattern == _ANY_TEXT else text_shape(pattern.removeprefix("(?s)"))


@shape_of.register
def _(kind: ServerAddress) -> Shape:
    return text_shape(r".+:[0-9]{1,5}" if kind.needs_port else r"(?s).+", **{"x-kind": "server"})


@shape_of.register
def _(kind: ServerAddresses) -> Shape:
    one = shape_of(ServerAddress(1))
    return alternatives(one, {"type": "array", "items": one, "minItems": 1})


@shape_of.register
def _(kind: Choice) -> Shape:
    return {"enum": list(kind.words)}


@shape_of.register
def _(kind: Switch) -> Shape:
    return {"enum": [True, False, *(word for word in kind.words if word not in ("true", "false"))]}


@shape_of.register(Words)
def _(kind: Words[Any]) -> Shape:
    return {"enum": list(kind.meanings)}


@shape_of.register
def _(kind: Duration) -> Shape:
    shape = text_shape(DURATION_PATTERN, **{"x-kind": "duration"})
    if not kind.needs_unit:
        shape |= {"type": ["string", "integer"], "minimum": round(kind.minimum * 1000)}
        shape |= {} if kind.maximum is None else {"maximum": round(kind.maximum * 1000)}
    return shape | _shown_bounds(kind, kind.minimum, kind.maximum)


@shape_of.register
def _(kind: Size) -> Shape:
    shape = text_shape(SIZE_PATTERN, **_bounds(kind.minimum, kind.maximum), **{"x-kind": "size"})
    return shape | {"type": ["string", "integer"]} | _shown_bounds(kind, kind.minimum, kind.maximum)


@shape_of.register
def _(kind: FilterText) -> Shape:
    return {"type": "string", "minLength": 1, "x-kind": "topic filter"}


@shape_of.register
def _(kind: TopicFilters) -> Shape:
    one = shape_of(FilterText())
    return alternatives(one, {"type": "array", "items": one})


@shape_of.register
def _(kind: Texts) -> Shape:
    return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


@shape_of.register
def _(kind: SecretText) -> Shape:
    shape: Shape = {"type": "string", "x-kind": "secret"}
    return shape if kind.may_be_empty else {**shape, "pattern": r"\S"}


@shape_of.register
def _(kind: Anything) -> Shape:
    return {}


@shape_of.register(OrTemplate)
def _(kind: OrTemplate[Any]) -> Shape:
    return alternatives(shape_of(kind.kind), text_shape(r".*\$\{.*\}.*"))


@shape_of.register(Unless)
def _(kind: Unless[Any]) -> Shape:
    words = [{"const": word, "x-word": True} for word in kind.words]
    zero = [{"const": 0, "x-word": True}] if kind.takes_zero else []
    return alternatives(shape_of(kind.kind), *words, *zero)


def _matching(pattern: str) -> Shape:
    return {"pattern": f"^(?:{pattern})$"}


def _bounds(minimum: float, maximum: float | None) -> Shape:
    return {"minimum": minimum} if maximum is None else {"minimum": minimum, "maximum": maximum}


def _shown_bounds(kind: Kind[Any], minimum: float, maximum: float | None) -> Shape:
    """The bounds of a text with a unit, which no pattern can hold."""
    shown = {"x-minimum": kind.show(minimum)} if minimum else {}
    return shown if maximum is None else {**shown, "x-maximum": kind.show(maximum)}
