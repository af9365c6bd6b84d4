"""From a HOCON value to the configuration: one walk over value and schema side by side that collects every problem."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from heliograph.config.contradictions import contradictions
from heliograph.config.errors import Problem
from heliograph.config.fields import KIND, ListOf, ListOfSections, Named, Overlays, Section
from heliograph.config.kinds import NAME, Kind, RefusedError
from heliograph.config.settings import Config
from heliograph.hocon import Node, to_json
from heliograph.hocon.merging import list_index

Path = tuple[str, ...]
Group = TypeVar("Group")
Check = Callable[[Config], Iterable[tuple[Path, str]]]
"""Finds what is wrong with a configuration of valid settings: the path of each fault, and the fault."""


class Reader:
    """Reads one document; used once.

    Args:
        variables: Names of the environment variables: an unknown key that comes from one is ignored, not refused.

        checks: What else looks at the configuration, if its settings are valid.

    Attributes:
        problems: What is wrong, in the order in which it was met.
        ignored: The variables that set something unknown, with the path.
    """

    def __init__(self, variables: frozenset[str] = frozenset(), checks: Iterable[Check] = ()) -> None:
        self.problems: list[Problem] = []
        self.ignored: list[str] = []
        self._variables = variables
        self._checks = tuple(checks)
        self._bases: dict[type[Any], Any] = {}  # what a group that is left out, or a part of it, has instead

    def read(self, node: Node) -> Config:
        """The configuration, with the default wherever the document says nothing usable."""
        config = self._section(Config, node, ())
        assert isinstance(config, Config)
        config = self._with_overlays(config, node)
        # Of what was refused, the default stands here, and that contradicts nobody.
        refused = {problem.path.partition(".")[0] for problem in self.problems}
        for check in self._checks if refused else (contradictions, *self._checks):
            for path, fault in check(config):
                if path[0] not in refused:
                    self._refuse(_nearest(node, path), path, fault)
        return config

    def group(self, model: type[Group], node: Node, path: Path) -> Group:
        """One group of settings, with the default wherever the document says nothing usable."""
        group: Group = self._section(model, node, path)
        return group

    def _with_overlays(self, config: Config, node: Node) -> Config:
        # Read last: what they leave out is what the root groups say, wherever these stand in the document.
        overlays: dict[str, Any] = {}
        for field in dataclasses.fields(Config):
            kind = field.metadata[KIND]
            if isinstance(kind, Overlays) and isinstance(node.value, dict) and field.name in node.value:
                self._bases = {
                    type(getattr(config, root.name)): getattr(config, root.name)
                    for root in dataclasses.fields(kind.model)
                }
                child = node.value[field.name]
                if child.value is not None:
                    read = self._named(Named(kind.model, ()), child, (field.name,))
                    if not isinstance(read, _Unusable):
                        overlays[field.name] = read
                self._bases = {}
        return dataclasses.replace(config, **overlays)

    def _section(self, model: type[Any], node: Node, path: Path) -> Any:
        if not isinstance(node.value, dict):
            example = dataclasses.fields(model)[0].name
            self._refuse(node, path, f"found {_found(node)}, expected an object with settings such as {example}")
            return self._base(model)
        fields = {field.name: field for field in dataclasses.fields(model)}
        values = {}
        for name, child in node.value.items():
            if name not in fields:
                self._unknown(child, (*path, name), list(fields))
            elif child.value is not None and not isinstance(fields[name].metadata[KIND], Overlays):
                value = self._setting(fields[name].metadata[KIND], child, (*path, name))
                if not isinstance(value, _Unusable):
                    values[name] = value
        try:
            return dataclasses.replace(self._base(model), **values)
        except RefusedError as refusal:  # what no single setting shows
            self._refuse(node, path, str(refusal))
            return self._base(model)

    def _base(self, model: type[Any]) -> Any:
        if model in self._bases:
            return self._bases[model]
        # A group of an overlay begins with the root groups, not with their defaults.
        return model(
            **{
                field.name: self._bases[field.metadata[KIND].model]
                for field in dataclasses.fields(model)
                if isinstance(field.metadata[KIND], Section) and field.metadata[KIND].model in self._bases
            }
        )

    def _setting(self, kind: object, node: Node, path: Path) -> object:
        if isinstance(kind, Section):
            return self._section(kind.model, node, path)
        if isinstance(kind, Named):
            return self._named(kind, node, path)
        if isinstance(kind, ListOf):
            return self._list(kind, node, path)
        if isinstance(kind, ListOfSections):
            return self._section_list(kind, node, path)
        assert isinstance(kind, Kind)
        return self._scalar(kind, node, path)

    def _named(self, kind: Named, node: Node, path: Path) -> object:
        if not isinstance(node.value, dict):
            self._refuse(node, path, f"found {_found(node)}, expected an object with a name for each entry")
            return _Unusable()
        sections = {name: kind.model() for name in kind.always}
        for name, child in node.value.items():
            if NAME.fullmatch(name) is None:
                self._refuse(
                    child,
                    (*path, name),
                    f'"{name}" is no valid name: expected letters, digits, _ and -, beginning with a letter or digit',
                )
            elif child.value is not None:
                sections[name] = self._section(kind.model, child, (*path, name))
        return sections

    def _list(self, kind: ListOf[Any], node: Node, path: Path) -> object:
        items = _list_items(node)
        if items is None or len(items) < kind.at_least:
            self._refuse(node, path, f"found {_found(node)}, expected {kind.expected}")
            return _Unusable()
        values = [self._scalar(kind.kind, item, (*path, str(index))) for index, item in enumerate(items, 1)]
        return _Unusable() if any(isinstance(value, _Unusable) for value in values) else tuple(values)

    def _section_list(self, kind: ListOfSections, node: Node, path: Path) -> object:
        items = _list_items(node)
        if items is None:
            self._refuse(node, path, f"found {_found(node)}, expected a list of objects")
            return _Unusable()
        return tuple(self._section(kind.model, item, (*path, str(index))) for index, item in enumerate(items, 1))

    def _scalar(self, kind: Kind[Any], node: Node, path: Path) -> object:
        try:
            return kind.read(node)
        except RefusedError as refusal:
            detail = f": {refusal}" if str(refusal) else ""
            self._refuse(node, path, f"found {_found(node)}, expected {kind.expected}{detail}")
            return _Unusable()

    def _unknown(self, node: Node, path: Path, valid: Sequence[str]) -> None:
        if node.position.source in self._variables:
            self.ignored.append(f"{node.position.source} ({'.'.join(path)})")
            return
        self._refuse(node, path, f"unknown key{_suggestion(path[-1], valid)}")

    def _refuse(self, node: Node, path: Path, message: str) -> None:
        if node.source is not None:
            message += f" (the value comes from {node.source})"
        self.problems.append(Problem(node.position.source, node.position.line, ".".join(path), message))


def read_group(model: type[Group], node: Node, path: Path) -> tuple[Group, tuple[Problem, ...]]:
    """Read one group of settings by itself, as another file than a node's configuration may hold it.

    Args:
        model: The dataclass of the group.
        node: What the file says.
        path: What problems call the group.

    Returns:
        The group, and what is wrong with it.
    """
    reader = Reader()
    group = reader.group(model, node, path)
    return group, tuple(reader.problems)


class _Unusable:
    """Stands for a value that was refused, so that its field keeps the default while the walk goes on."""


def knows_path(path: Sequence[str]) -> bool:
    """Whether the schema has a place for a value at this path."""
    kind: object = Section(Config)
    for name in path:
        if isinstance(kind, Section):
            fields = {field.name: field for field in dataclasses.fields(kind.model)}
            if name not in fields:
                return False
            kind = fields[name].metadata[KIND]
        elif isinstance(kind, Named | Overlays) or (isinstance(kind, ListOfSections) and list_index(name) is not None):
            kind = Section(kind.model)
        elif isinstance(kind, ListOf) and list_index(name) is not None:
            kind = kind.kind
        else:
            return False
    return True


def _nearest(node: Node, path: Path) -> Node:
    """The value at a path, or what is nearest to it in the document."""
    for name in path:
        items, index = _list_items(node), list_index(name)
        child = node.value.get(name) if isinstance(node.value, dict) else None
        if items is not None and index is not None and 0 < index <= len(items):
            child = items[index - 1]
        if child is None:
            return node
        node = child
    return node


def _list_items(node: Node) -> list[Node] | None:
    """Elements of a list, or of an object whose keys are exactly 1 to n."""
    if isinstance(node.value, list):
        return node.value
    if isinstance(node.value, dict):
        by_index = {list_index(key): item for key, item in node.value.items()}
        if set(by_index) == set(range(1, len(node.value) + 1)):
            return [by_index[index] for index in range(1, len(by_index) + 1)]
    return None


def _found(node: Node) -> str:
    if isinstance(node.value, list) and node.value:
        return f"a list of {len(node.value)}"
    text = to_json(node, None)
    return text if len(text) <= 60 else f"{node.kind} that begins with {text[:50]}"


def _suggestion(name: str, valid: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, valid, n=1)
    return f"; did you mean {close[0]}?" if close else f"; valid here: {', '.join(sorted(valid))}"
