"""The fields of configuration dataclasses: each holds one value, a list of them, or groups of settings.

A field carries what reading and describing a configuration need to know. What a single value may be is in `kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic

from heliograph.config.kinds import Kind, Value

# What the metadata of a dataclass field is filed under.
KIND: Final = "kind"
DESCRIPTION: Final = "description"


@dataclass(frozen=True, slots=True)
class ListOf(Generic[Value]):
    """A list of one kind; the program gets a tuple."""

    kind: Kind[Value]
    at_least: int = 0

    @property
    def expected(self) -> str:
        """What is valid."""
        count = "a list" if self.at_least == 0 else f"a list with at least {self.at_least} element"
        return f"{count}, each {self.kind.expected}"


@dataclass(frozen=True, slots=True)
class Section:
    """A nested group of settings: a dataclass whose fields are settings."""

    model: type[Any]


@dataclass(frozen=True, slots=True)
class Named:
    """Any number of groups under names of the operator's choice.

    Attributes:
        model: The dataclass of one group.
        always: Names that are there with their defaults even when no file has them.
    """

    model: type[Any]
    always: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListOfSections:
    """A list of groups of settings; the program gets a tuple of them."""

    model: type[Any]


@dataclass(frozen=True, slots=True)
class Overlays:
    """Any number of groups under names of the operator's choice, in each of which root groups stand again.

    A setting that such a group leaves out has the value of the root group.
    """

    model: type[Any]


def setting(kind: Kind[Value], default: Value, description: str) -> Value:
    """A field of a configuration dataclass that holds one value."""
    result: Value = field(default=default, metadata={KIND: kind, DESCRIPTION: description})
    return result


def list_setting(kind: ListOf[Value], default: tuple[Value, ...], description: str) -> tuple[Value, ...]:
    """A field that holds a list of values."""
    result: tuple[Value, ...] = field(default=default, metadata={KIND: kind, DESCRIPTION: description})
    return result


def section(model: type[Value], description: str) -> Value:
    """A field that holds a group of settings."""
    result: Value = field(default_factory=model, metadata={KIND: Section(model), DESCRIPTION: description})
    return result


def named_sections(model: type[Value], always: tuple[str, ...], description: str) -> Mapping[str, Value]:
    """A field that holds groups of settings under names."""
    result: Mapping[str, Value] = field(
        default_factory=lambda: {name: model() for name in always},
        metadata={KIND: Named(model, always), DESCRIPTION: description},
    )
    return result


def section_list(model: type[Value], description: str) -> tuple[Value, ...]:
    """A field that holds a list of groups of settings, empty by default."""
    result: tuple[Value, ...] = field(default=(), metadata={KIND: ListOfSections(model), DESCRIPTION: description})
    return result


def overlays(model: type[Value], description: str) -> Mapping[str, Value]:
    """A field that holds groups of settings under names, laid over the root groups of the same names."""
    result: Mapping[str, Value] = field(
        default_factory=dict, metadata={KIND: Overlays(model), DESCRIPTION: description}
    )
    return result
