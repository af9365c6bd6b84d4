"""What a change would do: each setting with its old and new value, how it changes, and what hides it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from heliograph.config.differences import Difference
from heliograph.config.layers import CLUSTER, NAMES, KeyPath, Layers, Origin, leaves, node_at
from heliograph.config.settings import Config
from heliograph.hocon.values import Node, to_json, to_plain
from heliograph.hocon.writing import key_text
from heliograph.settings.fields import How
from heliograph.settings.kinds import Kind
from heliograph.settings.masking import masked

HIDDEN: Final = "hidden"


class PlannedSetting(msgspec.Struct, frozen=True):
    """One setting of a change.

    Attributes:
        old: As a file says it; empty for none.
        how: How it changes, a value of `How`; `hidden` where a higher layer keeps it as it is.
        shadowed_by: The layer, file and line that hide it; empty otherwise.
    """

    path: str
    old: str
    new: str
    how: str
    shadowed_by: str = ""


def planned(before: Layers, after: Layers, found: Sequence[Difference]) -> list[PlannedSetting]:
    """What a higher layer hides comes last; `found` are the settings that differ."""
    old, new = masked(before.merged, Config), masked(after.merged, Config)
    settings = [
        PlannedSetting(one.path, _shown(old, one, one.old), _shown(new, one, one.new), one.how.value)
        for one in found
        if one.how is not How.RESTART or _differs(before.merged, after.merged, one.path)  # else it waits already
    ]
    asked, has = masked(after.files[CLUSTER], Config), masked(after.merged, Config)
    for path, origin in hidden(before, after):
        place = ".".join(map(key_text, path))
        settings.append(
            PlannedSetting(place, _json(node_at(has, path)), _json(node_at(asked, path)), HIDDEN, str(origin))
        )
    return settings


def hidden(before: Layers, after: Layers) -> Iterator[tuple[KeyPath, Origin]]:
    """What a change sets in the layer of the cluster and a higher layer sets otherwise: the path, and what hides it."""
    old = dict(leaves(before.files[CLUSTER]))
    for path, node in leaves(after.files[CLUSTER]):
        if path in old and to_plain(old[path]) == to_plain(node):
            continue
        found = node_at(after.merged, path)
        if found is not None and (to_plain(found) == to_plain(node) or _is_merged(node, found)):
            continue
        origin = _nearest_origin(after, path)
        if origin is not None and NAMES.index(origin.layer) > NAMES.index(CLUSTER):
            yield path, origin


def sets_only_what_holds(before: Layers, after: Layers) -> bool:
    """Whether a change of the layer of the cluster takes nothing out of it and only adds what a layer below says."""
    new = dict(leaves(after.files[CLUSTER]))
    return all(path in new and to_plain(new[path]) == to_plain(node) for path, node in leaves(before.files[CLUSTER]))


def _is_merged(node: Node, found: Node) -> bool:
    """Whether a group that sets nothing is in a layer below one that does: layers merge, so nothing of it is hidden."""
    return node.value == {} and isinstance(found.value, dict)


def _nearest_origin(layers: Layers, path: KeyPath) -> Origin | None:
    origins = (layers.origin(path[:length]) for length in range(len(path), 0, -1))
    return next((origin for origin in origins if origin is not None), None)


def _differs(old: Node, new: Node, path: str) -> bool:
    names = path.split(".")
    one, other = node_at(old, names), node_at(new, names)
    return (None if one is None else to_plain(one)) != (None if other is None else to_plain(other))


def _shown(tree: Node, setting: Difference, value: object) -> str:
    node = node_at(tree, setting.path.split("."))
    if node is not None and node.value is not None:
        return _json(node)
    return setting.kind.show(value) if isinstance(setting.kind, Kind) and value is not None else ""


def _json(node: Node | None) -> str:
    return "" if node is None else to_json(node, None)
