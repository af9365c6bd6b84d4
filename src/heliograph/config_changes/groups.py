"""Changes of groups of settings: of those under names, such as `rule_engine.rules`, and of lists whose order counts.

Layers merge, so what a named group said before and does not say any more is unset by name. A layer has a list as a
whole, so the list that holds now is written again, with stars for secrets, which keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from heliograph.config.layers import CLUSTER, Layers, node_at
from heliograph.config.settings import Config
from heliograph.config_changes.edits import Edit
from heliograph.config_changes.errors import ConfigRefusedError, GroupExistsError, GroupMissingError, HiddenChangeError
from heliograph.hocon.document import parse_text
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.values import Node, to_json, to_plain
from heliograph.hocon.walking import Walk, run_walk
from heliograph.hocon.writing import key_text
from heliograph.settings.fields import setting_at
from heliograph.settings.masking import masked
from heliograph.settings.reading import groups_of

FRONT: Final = "front"
REAR: Final = "rear"
BEFORE: Final = "before:"
AFTER: Final = "after:"
_HERE: Final = SourcePosition("<change>")
_NOTHING: Final = Node({}, _HERE)


class _Groups:
    """Groups as they hold, with stars for secrets, by their names; made for one change."""

    def __init__(self, path: Sequence[str], what: str, groups: dict[str, Node]) -> None:
        self._path = tuple(path)
        self._what = what
        self._groups = groups

    @property
    def names(self) -> list[str]:
        return list(self._groups)

    def plain(self, name: str) -> dict[str, Any]:
        """As files have it; raises `GroupMissingError`."""
        plain = to_plain(self._groups[self._known(name)])
        return plain if isinstance(plain, dict) else {}

    def _known(self, name: str) -> str:
        if name not in self._groups:
            raise GroupMissingError(self._what, name, self.names)
        return name

    def _written(self, value: Node) -> Edit:
        return Edit(values=((".".join(map(key_text, self._path)), to_json(value, None)),))


class NamedGroups(_Groups):
    """The groups under the names of one setting.

    Args:
        path: Where the groups stand.
        what: What one of them is called, in errors.
    """

    def __init__(self, layers: Layers, path: Sequence[str], what: str) -> None:
        self._layers = layers
        found = node_at(masked(layers.merged, Config), path)
        groups = found.value if found is not None and isinstance(found.value, dict) else {}
        # A group that says nothing counts as not there.
        super().__init__(path, what, {name: group for name, group in groups.items() if group.value})

    def put(self, name: str, text: str) -> Edit:
        """What makes a group say this and nothing else; `ConfigRefusedError` if the text is no group of settings."""
        own = node_at(self._layers.files[CLUSTER], (*self._path, name))
        return self._written(Node({name: run_walk(_replacing(own, group_in(text, self._what)))}, _HERE))

    def delete(self, name: str) -> Edit:
        """What removes a group.

        Raises:
            GroupMissingError: There is none of that name.
            HiddenChangeError: Another layer describes it, which no change can undo.
        """
        path = (*self._path, self._known(name))
        rest = self._layers.with_cluster(_NOTHING)
        if node_at(rest.merged, path) is not None:
            raise HiddenChangeError(
                f"the {self._what} {name!r} cannot be removed here: {rest.origin(path)} describes it; remove it there"
            )
        return self._written(Node({name: Node(None, _HERE)}, _HERE))


class GroupList(_Groups):
    """The groups of one list. What changes it returns the name of the group, and raises a `ConfigChangeError`.

    Args:
        path: Where the list stands.
        what: What one of the groups is called, in errors.
        tags: The settings of a group whose words are its name, as `password_based:mysql`.

    Attributes:
        done: What the last change did, for the comment of a revision.
    """

    def __init__(self, layers: Layers, path: Sequence[str], what: str, tags: Sequence[str] = ("name",)) -> None:
        self._tags = tags
        self.done = ""
        node = node_at(masked(layers.merged, Config), path)
        groups: Sequence[Node]
        if node is None:
            setting = setting_at(Config, path)
            groups = [] if setting is None else [self._tagged(one) for one in setting.default]
        else:
            groups = groups_of(node) or ()
        super().__init__(path, what, {self._name_of(group): group for group in groups})

    def add(self, text: str, position: str = REAR) -> str:
        name, group = self._read(text)
        if name in self._groups:
            raise GroupExistsError(self._what, name)
        self._groups[name] = group
        self.move(name, position)
        return self._did(name, "made")

    def update(self, text: str, name: str = "") -> str:
        """Replace the group of the name that the text has, which has to be `name` where that is given."""
        name, group = self._read(text, name)
        self._groups[self._known(name)] = group
        return self._did(name, "changed")

    def delete(self, name: str) -> str:
        del self._groups[self._known(name)]
        return self._did(name, "deleted")

    def enable(self, name: str, *, is_enabled: bool) -> str:
        fields = self._groups[self._known(name)].value
        assert isinstance(fields, dict)
        self._groups[name] = Node({**fields, "enable": Node(is_enabled, _HERE)}, _HERE)
        return self._did(name, "enabled" if is_enabled else "disabled")

    def move(self, name: str, position: str) -> str:
        """Put a group at another place: `front`, `rear`, `before:NAME` or `after:NAME`."""
        group = self._groups.pop(self._known(name))
        names = self.names
        if position == FRONT:
            at = 0
        elif position == REAR:
            at = len(names)
        elif position.startswith(BEFORE):
            at = names.index(self._known(position.removeprefix(BEFORE)))
        elif position.startswith(AFTER):
            at = names.index(self._known(position.removeprefix(AFTER))) + 1
        else:
            places = f"{FRONT}, {REAR}, {BEFORE}NAME and {AFTER}NAME"
            raise ConfigRefusedError([f"{position!r} is no place in a list; valid are {places}"])
        names.insert(at, name)
        self._groups = {one: self._groups.get(one, group) for one in names}
        return self._did(name, "moved")

    def order(self, names: Sequence[str]) -> str:
        """Put all groups in an order; the name that it returns is empty."""
        if sorted(names) != sorted(self.names):
            raise ConfigRefusedError(
                [f"found {', '.join(names)}; the order has to name each of {', '.join(self.names)} once"]
            )
        self._groups = {name: self._groups[name] for name in names}
        self._did(", ".join(names), "put in order")
        return ""

    def edit(self) -> Edit:
        return self._written(Node(list(self._groups.values()), _HERE))

    def _did(self, name: str, verb: str) -> str:
        self.done = f"the {self._what} {name} is {verb}"
        return name

    def _tagged(self, settings: object) -> Node:
        words = {tag: Node(getattr(settings, tag), _HERE) for tag in self._tags if hasattr(settings, tag)}
        return Node(words, _HERE)

    def _name_of(self, group: Node) -> str:
        fields = group.value if isinstance(group.value, dict) else {}
        words = [fields[tag].value for tag in self._tags if tag in fields]
        return ":".join(word for word in words if isinstance(word, str))

    def _read(self, text: str, wanted: str = "") -> tuple[str, Node]:
        group, tags = group_in(text, self._what), " and ".join(self._tags)
        name = self._name_of(group)
        if name and wanted in ("", name):
            return name, group
        if name:
            other = f"the settings are those of {name}, not of {wanted}: {tags} cannot change"
            raise ConfigRefusedError([f"{other}; delete the one, add the other"])
        if wanted:
            words = ", ".join(f"{tag} = {word}" for tag, word in zip(self._tags, wanted.split(":"), strict=False))
            none = f"the settings say no {self._tags[0]}"
            raise ConfigRefusedError([f"{none}: give all settings of {wanted}, with {words}"])
        raise ConfigRefusedError([f"found {text!r}, expected the settings of one {self._what}, with {tags}"])


def group_in(text: str, what: str) -> Node:
    """In HOCON or JSON; raises `ConfigRefusedError`."""
    try:
        # A client of the control socket does not see the node's files.
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
