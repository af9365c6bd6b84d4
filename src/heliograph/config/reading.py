"""From a HOCON value to the configuration of a node: groups, the overlays of zones over them, and contradictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from heliograph.config import emqx_forms
from heliograph.config.contradictions import contradictions
from heliograph.config.settings import Config
from heliograph.hocon.merging import list_index
from heliograph.hocon.values import Node
from heliograph.settings.fields import (
    AnyKind,
    ListOf,
    ListOfSections,
    ListOfVariants,
    Named,
    Overlays,
    Section,
    settings_of,
)
from heliograph.settings.kinds import RefusedError
from heliograph.settings.reading import GroupReader, Path, Unusable, nearest

Check = Callable[[Config], Iterable[tuple[Path, str]]]
"""Finds what is wrong with a configuration of valid settings: the path of each fault, and the fault."""


class ConfigReader(GroupReader):
    """Reads one document; used once. `checks` also look at the configuration, if its settings are valid."""

    def __init__(self, variables: frozenset[str] = frozenset(), checks: Iterable[Check] = ()) -> None:
        super().__init__(variables, emqx_forms.hint)
        self._checks = tuple(checks)
        self._bases: dict[type[Any], Any] = {}  # what a group that is left out, or a part of it, has instead

    def read(self, node: Node) -> Config:
        """With the default wherever the document says nothing usable."""
        config = self.section(Config, node, ())
        assert isinstance(config, Config)
        config = self._with_overlays(config, node)
        # A refused setting has its default here, which contradicts no other.
        refused = {problem.path.partition(".")[0] for problem in self.problems}
        refused |= {"listeners"} if "authentication" in refused else set()  # their authentication is not known
        for check in self._checks if refused else (contradictions, *self._checks):
            for path, fault in check(config):
                if path[0] not in refused:
                    self.refuse(nearest(node, path), path, fault)
        return config

    def make(self, model: type[Any], values: Mapping[str, object]) -> Any:
        """The group with some values, and what it is laid over for all others."""
        if model in self._bases:
            return dataclasses.replace(self._bases[model], **values)
        return model(**{**self._based(model), **values})

    def default(self, model: type[Any]) -> Any:
        """A group of an overlay begins with the root groups, not with their defaults."""
        if model in self._bases:
            return self._bases[model]
        try:
            return model(**self._based(model))
        except (TypeError, RefusedError):  # some of it has to be said
            return Unusable()

    def _based(self, model: type[Any]) -> dict[str, object]:
        settings = settings_of(model).values()
        parts = ((each.field, each.kind.model) for each in settings if isinstance(each.kind, Section))
        return {field: self._bases[part] for field, part in parts if part in self._bases}

    def _with_overlays(self, config: Config, node: Node) -> Config:
        # Read last: what they leave out is what the root groups say, wherever these stand in the document.
        overlays: dict[str, Any] = {}
        for setting in settings_of(Config).values():
            kind = setting.kind
            child = node.value.get(setting.name) if isinstance(node.value, dict) else None
            if not isinstance(kind, Overlays) or child is None or child.value is None:
                continue
            roots = [getattr(config, name) for name in settings_of(kind.model)]
            self._bases = {type(root): root for root in roots}
            read = self.named(Named(kind.model, ()), child, (setting.name,))
            if not isinstance(read, Unusable):
                overlays[setting.field] = read
            self._bases = {}
        return dataclasses.replace(config, **overlays)


def knows_path(path: Sequence[str]) -> bool:
    kinds: list[AnyKind] = [Section(Config)]
    for name in path:
        kinds = [below for kind in kinds for below in _below(kind, name)]
    return bool(kinds)


def _below(kind: AnyKind, name: str) -> list[AnyKind]:
    """What may stand under a name; several where that depends on what else is said."""
    is_index = list_index(name) is not None
    if isinstance(kind, Section):
        settings = settings_of(kind.model)
        return [settings[name].kind] if name in settings else []
    if isinstance(kind, Named | Overlays) or (isinstance(kind, ListOfSections) and is_index):
        return [Section(kind.model)]
    if isinstance(kind, ListOfVariants):
        groups: list[AnyKind] = [Section(model) for model in kind.models]
        return groups if is_index else [below for group in groups for below in _below(group, name)]
    return [kind.kind] if isinstance(kind, ListOf) and is_index else []
