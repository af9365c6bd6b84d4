"""From a HOCON value to a group of settings: one walk over value and declaration that collects every problem."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from heliograph.hocon.document import parse_text
from heliograph.hocon.merging import list_index
from heliograph.hocon.values import Node, to_json
from heliograph.settings.errors import Problem
from heliograph.settings.fields import (
    NOTHING,
    AnyKind,
    ListOf,
    ListOfSections,
    ListOfVariants,
    Named,
    Overlays,
    Section,
    Setting,
    settings_of,
)
from heliograph.settings.kinds import NAME, Boolean, Kind, RefusedError, is_pem
from heliograph.settings.url_secrets import masked_template, quoted_url, without_url_secrets

Path = tuple[str, ...]
Group = TypeVar("Group")
_SWITCH: Final = "enable"
_FOUND_LENGTH_MAX: Final = 60


class Unusable:
    """Stands for a value that was refused, so that its field keeps the default while the walk goes on."""


class GroupReader:
    """Reads one document; used once.

    Args:
        variables: Names of the environment variables: an unknown key that comes from one is ignored, not refused.
        hint: What to write in the place of an unknown key, by its path, where that is known.

    Attributes:
        unknown_count: How many of the problems are unknown keys, without which everything has its value.
        ignored: The variables that set something unknown, with the path.
    """

    def __init__(
        self, variables: frozenset[str] = frozenset(), hint: Callable[[Path], str | None] = lambda path: None
    ) -> None:
        self.problems: list[Problem] = []
        self.unknown_count = 0
        self.ignored: list[str] = []
        self._variables = variables
        self._hint = hint

    def section(
        self,
        model: type[Any],
        node: Node,
        path: Path,
        given: Mapping[str, object] | None = None,
        others: Collection[str] = (),
    ) -> Any:
        """A group, with the default wherever the document says nothing usable; overlays are left out.

        Args:
            given: Fields that are not for a document to say.
            others: Keys that are valid and read elsewhere.

        Returns:
            The group, or `Unusable` if something is missing that has no default.
        """
        settings = settings_of(model)
        if not isinstance(node.value, dict):
            self.refuse(
                node,
                path,
                f"found {_shown(node, Section(model))}, "
                f"expected an object with settings such as {next(iter(settings))}",
            )
            return self.default(model)
        values = dict(given or {})
        refused = False
        for name, child in node.value.items():
            if name in others:
                continue
            if name not in settings:
                self._unknown(child, (*path, name), [*settings, *others])
                continue
            setting = settings[name]
            if child.value is None or isinstance(setting.kind, Overlays):
                continue
            value = self._value(setting, child, (*path, name))
            if isinstance(value, Unusable):
                refused = True
            else:
                values[setting.field] = value
        for setting in settings.values():
            if setting.is_required and setting.field not in values:
                tagged = node.value.get(setting.name)
                if tagged is None or tagged.value is None:
                    self.refuse(node, (*path, setting.name), f"is missing, expected {setting.kind.expected}")
                refused = True
        return self._made(model, values, node, path, refused)

    def make(self, model: type[Any], values: Mapping[str, object]) -> Any:
        """The group with some values, and the default of all others."""
        return model(**values)

    def default(self, model: type[Any]) -> Any:
        """What stands for a group that cannot be read."""
        try:
            return model()
        except (TypeError, RefusedError):  # some of it has to be said
            return Unusable()

    def refuse(self, node: Node, path: Path, message: str) -> None:
        """Note a problem; what it quotes of a URL has no secret."""
        message = without_url_secrets(message)
        if node.source is not None:
            message += f" (the value comes from {node.source})"
        self.problems.append(Problem(node.position.source, node.position.line, ".".join(path), message))

    def _made(self, model: type[Any], values: Mapping[str, object], node: Node, path: Path, refused: bool) -> Any:
        if refused and any(each.is_required and each.field not in values for each in settings_of(model).values()):
            return Unusable()
        try:
            return self.make(model, values)
        except RefusedError as refusal:  # what no single setting shows
            if not refused:  # with a default in the place of what the document says, it may be no fault
                place = (*path, refusal.at) if refusal.at else path
                self.refuse(nearest(node, (refusal.at,)), place, str(refusal))
            return self.default(model)

    def _value(self, setting: Setting, node: Node, path: Path) -> object:
        kind = setting.kind
        if isinstance(kind, Section):
            return self._switched(kind, node, path) if kind.has_switch else self.section(kind.model, node, path)
        if isinstance(kind, Named):
            return self.named(kind, node, path)
        if isinstance(kind, ListOf):
            return self._list(kind, node, path)
        if isinstance(kind, ListOfSections):
            return self._section_list(kind, node, path)
        if isinstance(kind, ListOfVariants):
            return self._variants(kind, node, path)
        assert isinstance(kind, Kind)
        return self._scalar(kind, node, path, is_secret=setting.is_secret)

    def _switched(self, kind: Section, node: Node, path: Path) -> object:
        if node.value == NOTHING:
            return None
        group = self.section(kind.model, node, path, others=(_SWITCH,))
        switch = node.value.get(_SWITCH) if isinstance(node.value, dict) else None
        is_on = switch is None or self._scalar(Boolean(), switch, (*path, _SWITCH))
        return group if is_on else None

    def named(self, kind: Named, node: Node, path: Path) -> object:
        """Groups by name."""
        if not isinstance(node.value, dict):
            self.refuse(node, path, f"found {_shown(node, kind)}, expected {kind.expected}")
            return Unusable()
        sections = {name: kind.model() for name in kind.always}
        for name, child in node.value.items():
            if NAME.fullmatch(name) is None:
                self.refuse(
                    child,
                    (*path, name),
                    f'"{name}" is no valid name: expected letters, digits, _ and -, beginning with a letter or digit',
                )
            elif child.value is not None:
                sections[name] = self.section(kind.model, child, (*path, name))
        return sections

    def _list(self, kind: ListOf[Any], node: Node, path: Path) -> object:
        items = list_items(node)
        if items is None or len(items) < kind.at_least:
            self.refuse(node, path, f"found {_shown(node, kind)}, expected {kind.expected}")
            return Unusable()
        values = [self._scalar(kind.kind, item, (*path, str(index))) for index, item in enumerate(items, 1)]
        return Unusable() if any(isinstance(value, Unusable) for value in values) else tuple(values)

    def _section_list(self, kind: ListOfSections, node: Node, path: Path) -> object:
        items = list_items(node)
        if items is None:
            self.refuse(node, path, f"found {_shown(node, kind)}, expected {kind.expected}")
            return Unusable()
        return _usable(self.section(kind.model, item, (*path, str(index))) for index, item in enumerate(items, 1))

    def _variants(self, kind: ListOfVariants, node: Node, path: Path) -> object:
        groups = groups_of(node)
        if groups is None:
            self.refuse(node, path, f"found {_shown(node, kind)}, expected {kind.expected}")
            return Unusable()
        if groups and groups[0] is node:
            return _usable([self._variant(kind, node, path, [])])
        return _usable(
            self._variant(kind, group, (*path, str(number)), groups[: number - 1])
            for number, group in enumerate(groups, 1)
        )

    def _variant(self, kind: ListOfVariants, group: Node, path: Path, earlier: Sequence[Node]) -> object:
        name = name_of(kind, group)
        model = model_of(kind, group)
        if model is None:
            valid = ", ".join(map(kind.name_of, kind.models))
            found = repr(name) if name else "nothing"
            self.refuse(group, path, f"{' and '.join(kind.tags)} say {found}, expected one of {valid}")
            return Unusable()
        if any(name_of(kind, other) == name for other in earlier):
            self.refuse(group, path, f"there is a {name} before it; a list has one of each kind")
        return self.section(model, group, path)

    def _scalar(self, kind: Kind[Any], node: Node, path: Path, *, is_secret: bool = False) -> object:
        try:
            return kind.read(node)
        except RefusedError as refusal:
            detail = f": {refusal}" if str(refusal) else ""
            shown = node.kind if is_secret else found(_quoted(node) if kind.is_sent else node)
            self.refuse(node, path, f"found {shown}, expected {kind.expected}{detail}")
            return Unusable()

    def _unknown(self, node: Node, path: Path, valid: Sequence[str]) -> None:
        if node.position.source in self._variables:
            self.ignored.append(f"{node.position.source} ({'.'.join(path)})")
            return
        self.unknown_count += 1
        hint = self._hint(path)
        self.refuse(node, path, f"unknown key; {hint or _suggestion(path[-1], valid)}")


def read_group(
    model: type[Group],
    node: Node,
    path: Path,
    given: Mapping[str, object] | None = None,
    others: Collection[str] = (),
) -> tuple[Group | None, tuple[Problem, ...]]:
    """Read one group of settings by itself, as another file than a node's configuration may hold it.

    Args:
        path: What problems call the group.
        given: Fields that are not for a file to say.
        others: Keys that are valid and read elsewhere.

    Returns:
        The group, and what is wrong with it. With unknown keys alone there is a group; it is None if a value was
        refused, or one is missing that has no default.
    """
    reader = GroupReader()
    group = reader.section(model, node, path, given, others)
    is_whole = len(reader.problems) == reader.unknown_count
    return group if is_whole else None, tuple(reader.problems)


def group_of_plain(model: type[Group], value: object, name: str) -> tuple[Group | None, tuple[Problem, ...]]:
    """Read a group out of a value that JSON can say; None has the defaults. `name` is what problems call the group."""
    return read_group(model, parse_text(json.dumps({} if value is None else value)), (name,))


def nearest(node: Node, path: Path) -> Node:
    """The value at a path, or what is nearest to it in the document."""
    for name in path:
        child = child_of(node, name)
        if child is None:
            return node
        node = child
    return node


def child_of(node: Node, name: str) -> Node | None:
    """The value under a name, or the element of a list with that number; None if there is none."""
    items, index = list_items(node), list_index(name)
    if items is not None and index is not None and 0 < index <= len(items):
        return items[index - 1]
    return node.value.get(name) if isinstance(node.value, dict) else None


def found(node: Node) -> str:
    """What a file says, as a message shows it."""
    if isinstance(node.value, list) and node.value:
        return f"a list of {len(node.value)}"
    if isinstance(node.value, str) and is_pem(node.value):
        return "a text in PEM"
    value = quoted_url(node.value) if isinstance(node.value, str) else node.value
    text = to_json(Node(value, node.position), None)
    return text if len(text) <= _FOUND_LENGTH_MAX else f"{node.kind} that begins with {text[:50]}"


def _quoted(node: Node) -> Node:
    """What was refused of what a server is to be sent, without its constant texts."""
    return Node(masked_template(quoted_url(node.value)), node.position) if isinstance(node.value, str) else node


def _usable(groups: Iterable[object]) -> object:
    """A list of groups, if each of them could be read."""
    read = tuple(groups)
    return Unusable() if any(isinstance(group, Unusable) for group in read) else read


def _shown(node: Node, kind: AnyKind) -> str:
    """What a file says in the place of a group or list: what may be a secret below it is not shown."""
    return node.kind if _has_secret(kind) else found(node)


def _has_secret(kind: AnyKind) -> bool:
    if isinstance(kind, Kind | ListOf):
        return False
    models = kind.models if isinstance(kind, ListOfVariants) else (kind.model,)
    return any(each.is_secret or _has_secret(each.kind) for model in models for each in settings_of(model).values())


def _suggestion(name: str, valid: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, valid, n=1)
    return f"did you mean {close[0]}?" if close else f"valid here: {', '.join(sorted(valid))}"


def list_items(node: Node) -> list[Node] | None:
    """Elements of a list, or of an object whose keys are exactly 1 to n."""
    if isinstance(node.value, list):
        return node.value
    if isinstance(node.value, dict):
        by_index = {list_index(key): item for key, item in node.value.items()}
        if set(by_index) == set(range(1, len(node.value) + 1)):
            return [by_index[index] for index in range(1, len(by_index) + 1)]
    return None


def groups_of(node: Node) -> list[Node] | None:
    """The groups of a list of variants, of which one may stand without a list; None if it is neither."""
    items = list_items(node)
    return [node] if items is None and isinstance(node.value, dict) else items


def name_of(kind: ListOfVariants, node: Node) -> str:
    """The words by which a group says what it is, as far as it says them."""
    fields = node.value if isinstance(node.value, dict) else {}
    words = [fields[tag].value for tag in kind.tags if tag in fields]
    return ":".join(word for word in words if isinstance(word, str))


def model_of(kind: ListOfVariants, node: Node) -> type[Any] | None:
    """The dataclass of a group, None if it does not name one that there is."""
    return kind.model_named(name_of(kind, node))
