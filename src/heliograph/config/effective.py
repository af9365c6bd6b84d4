"""Every setting of a node with the value that it has and what set it, defaults included."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from heliograph.config.layers import DEFAULTS, KeyPath, Layers
from heliograph.config.settings import Config
from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.values import Node, to_json
from heliograph.hocon.writing import key_text
from heliograph.settings.fields import (
    NOTHING,
    AnyKind,
    How,
    ListOf,
    ListOfVariants,
    Named,
    Overlays,
    Section,
    Setting,
    settings_of,
)
from heliograph.settings.kinds import Kind, Unless
from heliograph.settings.masking import masked, secrets_in

_ENABLE: Final = "enable"
_NULL: Final = "null"
_NOTHING: Final = Node({}, SourcePosition(DEFAULTS))


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """One setting.

    Attributes:
        value: As a file would have it, with stars for secrets.
        origin: The layer, and where in it.
        plain: The same as JSON; `null` where it has no value.
        secrets: Where in the value secrets stand: names and numbers, none for the value itself.
        inherited_from: The setting of the root that a zone has it from, whose origin it has; empty for all others.
    """

    path: str
    value: str
    origin: str
    how: How
    plain: str
    secrets: tuple[tuple[str, ...], ...] = ()
    inherited_from: str = ""


def effective_settings(layers: Layers, root: str = "", *, hides_sent: bool = False) -> Iterator[EffectiveSetting]:
    """Those below `root`, in the order of the declarations; all where it is empty or no root.

    Args:
        hides_sent: See `masked`.
    """
    tree, setting = layers.merged, settings_of(Config).get(root)
    if setting is not None:
        fields = tree.value if isinstance(tree.value, dict) else {}
        tree = Node({name: node for name, node in fields.items() if name == root}, tree.position, tree.source)
    wanted = settings_of(Config) if setting is None else {root: setting}
    return _in_group(layers, wanted, masked(tree, Config, hides_sent=hides_sent), (), How.RESTART)


def inherited_settings(layers: Layers) -> Iterator[EffectiveSetting]:
    """What zones do not say themselves, each with the value and the origin that it has at the root."""
    (zones, kind) = next(
        (name, one.kind) for name, one in settings_of(Config).items() if isinstance(one.kind, Overlays)
    )
    tree = layers.merged.value
    named = tree[zones].value if isinstance(tree, dict) and zones in tree else None
    if not isinstance(named, dict) or not isinstance(kind, Overlays):
        return
    roots = [one for group in settings_of(kind.model) for one in effective_settings(layers, group)]
    for name, zone in named.items():
        place = _dotted((zones, name))
        said = [one.path.removeprefix(f"{place}.") for one in _said(layers, zone, (zones, name), How.RESTART)]
        for one in roots:
            if not any(_is_within(path, one.path) or _is_within(one.path, path) for path in said):
                yield replace(one, path=f"{place}.{one.path}", inherited_from=one.path)


def _is_within(path: str, group: str) -> bool:
    return path == group or path.startswith(f"{group}.")


def _in_group(
    layers: Layers, settings: Mapping[str, Setting], node: Node, path: KeyPath, how: How
) -> Iterator[EffectiveSetting]:
    for name, setting in settings.items():
        child = node.value.get(name) if isinstance(node.value, dict) else None
        if child is not None and child.value is None:  # null: what is the default
            child = None
        place, changes = (*path, name), setting.how or how
        if child is not None or not isinstance(setting.kind, Kind | ListOf | ListOfVariants):
            yield from _of(layers, setting, child, place, changes)
        elif not setting.is_required:
            yield _default(setting, place, changes)


def _of(layers: Layers, setting: Setting, node: Node | None, path: KeyPath, how: How) -> Iterator[EffectiveSetting]:
    kind = setting.kind
    if isinstance(kind, Section) and node is not None and node.value == NOTHING:
        yield _set(layers, node, path, how)
    elif isinstance(kind, Section) and (node is not None or not kind.has_switch):
        if kind.has_switch and node is not None:
            yield _switch(layers, node, (*path, _ENABLE), how)
        yield from _in_group(layers, settings_of(kind.model), node or _NOTHING, path, how)
    elif isinstance(kind, Named | Overlays):
        found = node.value if node is not None and isinstance(node.value, dict) else {}
        for name in {**dict.fromkeys(kind.always if isinstance(kind, Named) else ()), **found}:
            group = found.get(name, _NOTHING)
            if isinstance(kind, Named):
                yield from _in_group(layers, settings_of(kind.model), group, (*path, name), how)
            else:
                yield from _said(layers, group, (*path, name), how)
    elif node is not None:
        yield _set(layers, node, path, how, kind, is_secret=setting.is_secret)
    elif isinstance(kind, Section):
        yield EffectiveSetting(_dotted(path), NOTHING, DEFAULTS, how, _NULL)
    else:
        yield EffectiveSetting(_dotted(path), "[]", DEFAULTS, how, "[]")


def _switch(layers: Layers, node: Node, path: KeyPath, how: How) -> EffectiveSetting:
    """Whether a group is used that has a switch and is there."""
    given = node.value.get(_ENABLE) if isinstance(node.value, dict) else None
    if given is not None:
        return _set(layers, given, path, how)
    return EffectiveSetting(_dotted(path), "true", DEFAULTS, how, "true")


def _said(layers: Layers, node: Node, path: KeyPath, how: How) -> Iterator[EffectiveSetting]:
    if isinstance(node.value, dict) and node.value:
        for name, child in node.value.items():
            yield from _said(layers, child, (*path, name), how)
    else:
        yield _set(layers, node, path, how)


def _set(
    layers: Layers, node: Node, path: KeyPath, how: How, kind: AnyKind | None = None, *, is_secret: bool = False
) -> EffectiveSetting:
    text, origin = to_json(node, None), str(layers.origin(path) or DEFAULTS)
    secrets = tuple(secrets_in(node, kind, is_secret=is_secret))
    return EffectiveSetting(_dotted(path), text, origin, how, text, secrets)


def _default(setting: Setting, path: KeyPath, how: How) -> EffectiveSetting:
    kind, value = setting.kind, setting.default
    assert isinstance(kind, Kind | ListOf | ListOfVariants)
    if value is None and not isinstance(kind, Unless):
        return EffectiveSetting(_dotted(path), NOTHING, DEFAULTS, how, _NULL)
    return EffectiveSetting(_dotted(path), kind.show(value), DEFAULTS, how, json.dumps(kind.plain(value)))


def _dotted(path: KeyPath) -> str:
    return ".".join(map(key_text, path))
