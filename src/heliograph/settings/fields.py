"""How settings are declared: fields of frozen dataclasses, each with one value, a list of them, or groups of settings.

`Setting` is everything that is known of one, for reading and describing it; `settings_of` has those of a group. What a
single value may be is in `kinds`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any, ClassVar, Final, Generic, cast

from heliograph.hocon.values import Plain
from heliograph.settings.kinds import Kind, SecretText, Value

#: What a file may say in the place of a group that has a switch, and has none of it.
NOTHING: Final = "none"

# What the metadata of a dataclass field is filed under.
_DECLARED: Final = "setting"


class How(StrEnum):
    """When another value of a setting holds, and what that costs."""

    LIVE = "live"
    """From the turn of the change on, for everything."""
    NEW_CONNECTIONS = "new connections"
    """For connections that come then; those that stand keep what they have."""
    LISTENER_REPLACED = "listener replaced"
    """Another listener takes the place of the one before, whose connections end."""
    RESTART = "restart"
    """With the next start."""


@dataclass(frozen=True, slots=True)
class ListOf(Generic[Value]):
    """A list of one kind; the program gets a tuple."""

    kind: Kind[Value]
    at_least: int = 0

    def plain(self, values: tuple[Value, ...]) -> list[Plain]:
        """A list as JSON has it."""
        return [self.kind.plain(one) for one in values]

    def show(self, values: tuple[Value, ...]) -> str:
        """A list as one would write it in a file."""
        return f"[{', '.join(map(self.kind.show, values))}]"

    @property
    def expected(self) -> str:
        """What is valid."""
        count = "a list" if self.at_least == 0 else f"a list with at least {self.at_least} element"
        return f"{count}, each {self.kind.expected}"


@dataclass(frozen=True, slots=True)
class Section:
    """A nested group of settings: a dataclass whose fields are settings.

    Attributes:
        has_switch: Whether the group is None where the file lacks it, says `enable = false` in it, or `none` in
            its place.
    """

    expected: ClassVar[str] = "an object"

    model: type[Any]
    has_switch: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """Any number of groups under names of the operator's choice.

    Attributes:
        given: The dataclass of a group, or `module:class`, which is imported when it is first asked for.
        always: Names that are there with their defaults even when no file has them.
    """

    expected: ClassVar[str] = "an object with a name for each entry"

    given: type[Any] | str
    always: tuple[str, ...]

    @property
    def model(self) -> type[Any]:
        """The dataclass of one group."""
        return _imported(self.given) if isinstance(self.given, str) else self.given


def _imported(place: str) -> type[Any]:
    module, _, name = place.partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found


@dataclass(frozen=True, slots=True)
class ListOfSections:
    """A list of groups of settings; the program gets a tuple of them."""

    expected: ClassVar[str] = "a list of objects"

    model: type[Any]


@dataclass(frozen=True, slots=True)
class ListOfVariants:
    """A list of groups of settings of several kinds, none of which may stand there twice; the program gets a tuple.

    One group without a list is a list of one.

    Attributes:
        models: The dataclasses of the kinds. Each has settings of one valid word each, by which it is chosen.
        tags: The names of these settings, the first of which every kind has.
        described_at: The setting where the groups are described, if that is another one.
    """

    expected: ClassVar[str] = "a list of objects"

    models: tuple[type[Any], ...]
    tags: tuple[str, ...]
    described_at: str = ""

    def name_of(self, model: type[Any]) -> str:
        """What a kind is called: its words, as `password_based:mysql`."""
        settings = settings_of(model)
        return ":".join(settings[tag].default for tag in self.tags if tag in settings)

    def plain(self, groups: tuple[Any, ...]) -> list[Plain]:
        """Groups that have nothing but defaults, as JSON has them."""
        return [{tag: getattr(one, tag) for tag in self.tags if hasattr(one, tag)} for one in groups]

    def show(self, groups: tuple[Any, ...]) -> str:
        """The same as a file would have them."""
        words = (", ".join(f"{tag} = {getattr(one, tag)}" for tag in self.tags if hasattr(one, tag)) for one in groups)
        return f"[{', '.join(f'{{ {word} }}' for word in words)}]"

    def model_named(self, name: str) -> type[Any] | None:
        """The kind of that name, None if there is none."""
        return next((model for model in self.models if self.name_of(model) == name), None)


@dataclass(frozen=True, slots=True)
class Overlays:
    """Any number of groups under names of the operator's choice, in each of which root groups stand again.

    A setting that such a group leaves out has the value of the root group.
    """

    expected: ClassVar[str] = "an object with a name for each entry"

    model: type[Any]


AnyKind = Kind[Any] | ListOf[Any] | Section | Named | ListOfSections | ListOfVariants | Overlays


@dataclass(frozen=True, slots=True)
class Setting:
    """All that is known of one setting.

    Attributes:
        field: The field of the dataclass that holds its value.
        default: Its value where a file does not say; `dataclasses.MISSING` where a file must.
        is_secret: Whether its value is never shown.
        is_place: Whether it says where secrets beside it are sent, or is an object of which any part may.
        how: How it and all below it change while the program runs; None: as the group that it belongs to.
    """

    name: str
    field: str
    kind: AnyKind
    default: Any
    description: str
    is_secret: bool
    is_place: bool
    how: How | None = None

    @property
    def is_required(self) -> bool:
        """Whether a file must have it."""
        return self.default is dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class _Declared:
    """What a field carries of its setting."""

    kind: AnyKind
    description: str
    name: str = ""
    is_secret: bool = False
    is_place: bool = False
    how: How | None = None

    @property
    def leads(self) -> bool:
        """Whether it says where secrets are sent."""
        return self.is_place or (isinstance(self.kind, Kind) and self.kind.is_place)

    @property
    def hides(self) -> bool:
        """Whether its value is never shown."""
        return self.is_secret or isinstance(self.kind, SecretText)


# Each reading asks for them many times. `functools.cache` takes no `type[Any]` for mypy.
_settings_of: Final[dict[type[Any], Mapping[str, Setting]]] = {}


def settings_of(model: type[Any]) -> Mapping[str, Setting]:
    """The settings of a group by their names, in the order of its fields."""
    found = _settings_of.get(model)
    if found is None:
        found = _settings_of[model] = _declared_in(model)
    return found


def setting_at(model: type[Any], path: Sequence[str]) -> Setting | None:
    """The setting at a path below a group, or the one whose value holds that path; None if none is declared there."""
    kind: AnyKind = Section(model)
    found: Setting | None = None
    for name in path:
        if isinstance(kind, Named | Overlays):
            kind = Section(kind.model)
        elif isinstance(kind, Section):
            found = settings_of(kind.model).get(name)
            if found is None:
                return None
            kind = found.kind
        else:
            break
    return found


def _declared_in(model: type[Any]) -> Mapping[str, Setting]:
    found: dict[str, Setting] = {}
    for each in dataclasses.fields(model):
        declared: _Declared | None = each.metadata.get(_DECLARED)
        if declared is None:
            continue
        default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        name = declared.name or each.name
        found[name] = Setting(
            name,
            each.name,
            declared.kind,
            default,
            declared.description,
            declared.hides,
            declared.leads,
            declared.how,
        )
    return found


def setting(
    kind: Kind[Value],
    default: Value,
    description: str,
    *,
    name: str = "",
    is_secret: bool = False,
    is_place: bool = False,
    how: How | None = None,
) -> Value:
    """A field of a group of settings that holds one value.

    Args:
        name: Its name in a file, where the field cannot have that.
        is_place: See `Setting`.
        how: How it changes while the program runs; None: as its group does.
    """
    metadata = {_DECLARED: _Declared(kind, description, name, is_secret, is_place, how)}
    if isinstance(default, dict):
        return cast(Value, field(default_factory=default.copy, repr=not is_secret, metadata=metadata))
    result: Value = field(default=default, repr=not is_secret, metadata=metadata)
    return result


def required(
    kind: Kind[Value], description: str, *, name: str = "", is_secret: bool = False, is_place: bool = False
) -> Value:
    """A field that holds one value, which a file must give."""
    metadata = {_DECLARED: _Declared(kind, description, name, is_secret, is_place)}
    result: Value = field(repr=not is_secret, metadata=metadata)
    return result


def required_list(kind: ListOf[Value], description: str) -> tuple[Value, ...]:
    """A field that holds a list of values, which a file must give."""
    result: tuple[Value, ...] = field(metadata={_DECLARED: _Declared(kind, description)})
    return result


def optional(
    kind: Kind[Value], description: str, *, name: str = "", is_secret: bool = False, is_place: bool = False
) -> Value | None:
    """A field that holds one value, or None where a file does not give it."""
    metadata = {_DECLARED: _Declared(kind, description, name, is_secret, is_place)}
    result: Value | None = field(default=None, repr=not is_secret, metadata=metadata)
    return result


def list_setting(
    kind: ListOf[Value], default: tuple[Value, ...], description: str, *, name: str = "", how: How | None = None
) -> tuple[Value, ...]:
    """A field that holds a list of values."""
    declared = _Declared(kind, description, name, how=how)
    result: tuple[Value, ...] = field(default=default, metadata={_DECLARED: declared})
    return result


def section(model: type[Value], description: str, *, name: str = "", how: How | None = None) -> Value:
    """A field that holds a group of settings."""
    declared = _Declared(Section(model), description, name, how=how)
    result: Value = field(default_factory=model, metadata={_DECLARED: declared})
    return result


def required_section(model: type[Value], description: str) -> Value:
    """A field that holds a group of settings, which a file must give."""
    result: Value = field(metadata={_DECLARED: _Declared(Section(model), description)})
    return result


def optional_section(model: type[Value], description: str, *, name: str = "", has_switch: bool = False) -> Value | None:
    """A field that holds a group of settings, None where a file does not have it; see `Section`."""
    kind = Section(model, has_switch)
    result: Value | None = field(default=None, metadata={_DECLARED: _Declared(kind, description, name)})
    return result


def named_sections(
    model: type[Value], always: tuple[str, ...], description: str, *, how: How | None = None
) -> Mapping[str, Value]:
    """A field that holds groups of settings under names; `how` a group comes and goes while the program runs."""
    result: Mapping[str, Value] = field(
        default_factory=lambda: {name: model() for name in always},
        metadata={_DECLARED: _Declared(Named(model, always), description, how=how)},
    )
    return result


def named_sections_of(place: str, description: str) -> Mapping[str, Any]:
    """Their dataclass `module:class` is imported where one is used."""
    metadata = {_DECLARED: _Declared(Named(place, ()), description)}
    result: Mapping[str, Any] = field(default_factory=dict, metadata=metadata)
    return result


def section_list(model: type[Value], description: str, *, how: How | None = None) -> tuple[Value, ...]:
    """A field that holds a list of groups of settings, empty by default."""
    declared = _Declared(ListOfSections(model), description, how=how)
    result: tuple[Value, ...] = field(default=(), metadata={_DECLARED: declared})
    return result


def variants(
    kind: ListOfVariants, description: str, *, default: tuple[Any, ...] = (), how: How | None = None
) -> tuple[Any, ...]:
    """A field that holds a list of groups of settings of several kinds."""
    result: tuple[Any, ...] = field(default=default, metadata={_DECLARED: _Declared(kind, description, how=how)})
    return result


def overlays(model: type[Value], description: str, *, how: How | None = None) -> Mapping[str, Value]:
    """A field that holds groups of settings under names, laid over the root groups of the same names."""
    declared = _Declared(Overlays(model), description, how=how)
    result: Mapping[str, Value] = field(default_factory=dict, metadata={_DECLARED: declared})
    return result
