"""Changes of groups under names, such as `rule_engine.rules`: one is made, replaced as a whole, or removed.

Layers merge, so what a group said before and does not say any more is unset by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from heliograph.config.layers import CLUSTER, Layers, node_at
from heliograph.config.settings import Config
from heliograph.config_changes.edits import Edit
from heliograph.config_changes.errors import ConfigRefusedError, HiddenChangeError
from heliograph.hocon.document import parse_text
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.values import Node, to_json, to_plain
from heliograph.hocon.walking import Walk, run_walk
from heliograph.settings.masking import masked

_HERE: Final = SourcePosition("<change>")
_NOTHING: Final = Node({}, _HERE)


class NamedGroups:
    """The groups under the names of one setting as they hold, to be changed; made for one change.

    Args:
        path: Where the groups stand.
        what: What one of them is called, in errors.
    """

    def __init__(self, layers: Layers, path: Sequence[str], what: str) -> None:
        self._layers = layers
        self._path = tuple(path)
        self._what = what
        found = node_at(masked(layers.merged, Config), path)
        groups = found.value if found is not None and isinstance(found.value, dict) else {}
        # A group that says nothing counts as not there.
        self._groups = {name: group for name, group in groups.items() if group.value}

    @property
    def names(self) -> list[str]:
        return list(self._groups)

    def plain(self, name: str) -> dict[str, Any]:
        """As files have them, with stars for secrets; empty where it is not there."""
        group = self._groups.get(name)
        plain = {} if group is None else to_plain(group)
        return plain if isinstance(plain, dict) else {}

    def put(self, name: str, text: str) -> Edit:
        """What makes a group say this and nothing else; `ConfigRefusedError` if the text is no group of settings."""
        own = node_at(self._layers.files[CLUSTER], (*self._path, name))
        return self._edit(name, run_walk(_replacing(own, group_in(text, self._what))))

    def delete(self, name: str) -> Edit:
        """What removes a group.

        Raises:
            ConfigRefusedError: There is none of that name.
            HiddenChangeError: Another layer describes it, which no change can undo.
        """
        path = (*self._path, name)
        if name not in self._groups:
            there_are = ", ".join(self._groups) or "none"
            raise ConfigRefusedError([f"there is no {self._what} {name!r}; there are: {there_are}"])
        rest = self._layers.with_cluster(Node({}, _HERE))
        if node_at(rest.merged, path) is not None:
            raise HiddenChangeError(
                f"the {self._what} {name!r} cannot be removed here: {rest.origin(path)} describes it; remove it there"
            )
        return self._edit(name, Node(None, _HERE))

    def _edit(self, name: str, group: Node) -> Edit:
        return Edit(values=((".".join(self._path), to_json(Node({name: group}, _HERE), None)),))


def group_in(text: str, what: str) -> Node:
    """In HOCON or JSON; raises `ConfigRefusedError`."""
    try:
        # Askers may not see the node's files.
        tree = parse_text(text, name="<change>", files=MemoryFiles({}))
    except HoconError as error:
        raise ConfigRefusedError([f"[{error.code}] {error}"]) from None
    if not isinstance(tree.value, dict):
        raise ConfigRefusedError([f"found {tree.kind}, expected the settings of one {what}"])
    return tree


def _replacing(old: Node | None, new: Node) -> Walk[Node]:
    """Laid over `old`, it leaves `new`."""
    if old is None or not isinstance(old.value, dict) or not isinstance(new.value, dict):
        return new
    fields = {name: Node(None, _HERE) for name in old.value if name not in new.value}
    for name, child in new.value.items():
        fields[name] = yield _replacing(old.value.get(name), child)
    return Node(fields, _HERE)
