"""Changes of one list of groups, such as `authorization.sources`, or `schema_validation.validations`, whose groups have
`name`: a group is added, changed, removed, moved.

A layer has a list as a whole. So the list that holds now is written again, with stars for secrets, which keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from heliograph.config.layers import Layers
from heliograph.config.settings import Config
from heliograph.config_changes.edits import Edit
from heliograph.config_changes.errors import ConfigRefusedError
from heliograph.hocon.document import parse_text
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.values import Node, to_json, to_plain
from heliograph.settings.fields import ListOfSections, ListOfVariants, settings_of
from heliograph.settings.masking import masked
from heliograph.settings.reading import groups_of
from heliograph.settings.reading import name_of as variant_name

FRONT: Final = "front"
REAR: Final = "rear"
BEFORE: Final = "before:"
AFTER: Final = "after:"
_NAME: Final = "name"
_HERE: Final = SourcePosition("<change>")


class GroupList:
    """The groups of one list as they hold, to be changed; made for one change.

    Args:
        layers: The configuration that holds.
        path: Where the list stands.
        what: What one of the groups is called, in errors.
    """

    def __init__(self, layers: Layers, path: Sequence[str], what: str) -> None:
        self._path = path
        self._what = what
        self._kind: ListOfVariants | ListOfSections
        model, tree = Config, masked(layers.merged, Config)
        node: Node | None = tree
        for name in path:
            setting = settings_of(model).get(name)
            if setting is not None:  # else it is the name of one of several groups, as of a listener
                if isinstance(setting.kind, ListOfVariants | ListOfSections):
                    self._kind, default = setting.kind, setting.default
                model = getattr(setting.kind, "model", model)
            node = node.value.get(name) if node is not None and isinstance(node.value, dict) else None
        if node is not None:
            self._groups = _groups(node)
        elif isinstance(self._kind, ListOfVariants):
            self._groups = _parsed(f"groups = {self._kind.show(default)}", "groups")
        else:
            self._groups = []

    @property
    def names(self) -> list[str]:
        """What the groups are called, as `mysql`, in their order."""
        return [_name_of(self._kind, group) for group in self._groups]

    def plain(self) -> list[dict[str, Any]]:
        """The settings of the groups, with stars for secrets."""
        plain = [to_plain(group) for group in self._groups]
        return [one for one in plain if isinstance(one, dict)]

    def add(self, text: str, position: str) -> str:
        """Add a group; its name.

        Raises:
            ConfigRefusedError: The text is not valid, or there is such a group.
        """
        group = self._read(text)
        name = _name_of(self._kind, group)
        if name in self.names:
            raise ConfigRefusedError([f"the {self._what} {name!r} is there already: change it, or delete it first"])
        self._groups.append(group)
        self.move(name, position)
        return name

    def update(self, text: str) -> str:
        """Replace the group of the same name; return its name.

        Raises:
            ConfigRefusedError: The text is not valid, or there is no such group.
        """
        group = self._read(text)
        name = _name_of(self._kind, group)
        self._groups[self._at(name)] = group
        return name

    def delete(self, name: str) -> None:
        """Take a group away.

        Raises:
            ConfigRefusedError: There is no such group.
        """
        del self._groups[self._at(name)]

    def enable(self, name: str, *, is_enabled: bool) -> None:
        """Switch a group on or off.

        Raises:
            ConfigRefusedError: There is no such group.
        """
        at = self._at(name)
        fields = self._groups[at].value
        assert isinstance(fields, dict)
        self._groups[at] = Node({**fields, "enable": Node(is_enabled, _HERE)}, _HERE)

    def move(self, name: str, position: str) -> None:
        """Put a group at another place: `front`, `rear`, `before:NAME` or `after:NAME`.

        Raises:
            ConfigRefusedError: There is no such group, or no such place.
        """
        group = self._groups.pop(self._at(name))
        if position == FRONT:
            at = 0
        elif position == REAR:
            at = len(self._groups)
        elif position.startswith(BEFORE):
            at = self._at(position.removeprefix(BEFORE))
        elif position.startswith(AFTER):
            at = self._at(position.removeprefix(AFTER)) + 1
        else:
            places = f"{FRONT}, {REAR}, {BEFORE}NAME and {AFTER}NAME"
            raise ConfigRefusedError([f"{position!r} is no place in a list; valid are {places}"])
        self._groups.insert(at, group)

    def order(self, names: Sequence[str]) -> None:
        """Put all groups in an order.

        Raises:
            ConfigRefusedError: Not each of them is named once.
        """
        if sorted(names) != sorted(self.names):
            raise ConfigRefusedError(
                [f"found {', '.join(names)}; the order has to name each of {', '.join(self.names)} once"]
            )
        self._groups = [self._groups[self._at(name)] for name in names]

    def edit(self) -> Edit:
        path = ".".join(f'"{name}"' if "." in name else name for name in self._path)
        return Edit(values=((path, to_json(Node(list(self._groups), _HERE), None)),))

    def _at(self, name: str) -> int:
        names = self.names
        if name not in names:
            there_are = ", ".join(names) or "none"
            raise ConfigRefusedError([f"there is no {self._what} {name!r}; there are: {there_are}"])
        return names.index(name)

    def name_in(self, text: str) -> str:
        """What a text calls its group, as far as it says so.

        Raises:
            ConfigRefusedError: The text is no settings.
        """
        return next((_name_of(self._kind, group) for group in _read(text)), "")

    def _read(self, text: str) -> Node:
        groups = _read(text)
        if len(groups) != 1 or not _name_of(self._kind, groups[0]):
            tags = " and ".join(self._kind.tags) if isinstance(self._kind, ListOfVariants) else _NAME
            raise ConfigRefusedError([f"found {text!r}, expected the settings of one {self._what}, with {tags}"])
        return groups[0]


def _name_of(kind: ListOfVariants | ListOfSections, group: Node) -> str:
    """What a group is called: by the words that say its kind, or by its `name`."""
    if isinstance(kind, ListOfVariants):
        return variant_name(kind, group)
    name = group.value.get(_NAME) if isinstance(group.value, dict) else None
    return name.value if name is not None and isinstance(name.value, str) else ""


def _read(text: str) -> list[Node]:
    return _parsed(f"groups = {text}" if text.lstrip().startswith("{") else f"groups {{ {text} }}", "groups")


def _parsed(text: str, name: str) -> list[Node]:
    try:
        tree = parse_text(text, name="<change>", files=MemoryFiles({}))  # askers may not see the node's files
    except HoconError as error:
        raise ConfigRefusedError([f"[{error.code}] {error}"]) from None
    fields: Any = tree.value
    return _groups(fields[name])


def _groups(node: Node) -> list[Node]:
    return list(groups_of(node) or ())
