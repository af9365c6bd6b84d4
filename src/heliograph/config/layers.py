"""The layers of a node's configuration, one over the other, and which of them set a value.

    defaults             what the program has where nothing else says anything
    base                 `base.hocon` beside the node's file, or the file of `--base`
    cluster              `data_dir/configs/cluster.hocon`: the only layer that a change of a running node writes
    node                 the node's file
    environment          variables such as `HELIOGRAPH_MQTT__MAX_INFLIGHT`
    command line         options such as `--data-dir`

Objects of two layers merge, everything else of the higher one replaces that of the lower one. Each file is read by
itself with what it includes: a substitution sees its own layer, so that a file means the same whatever the others say.
What the values mean is in `reading`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from heliograph.config.emqx_forms import in_our_form, is_of_mosquitto, our_path
from heliograph.config.reading import knows_path
from heliograph.config.settings import NodeConfig
from heliograph.hocon.document import parse_file
from heliograph.hocon.environment import Override, apply_overrides, environment_overrides, set_value
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.merging import merge_nodes
from heliograph.hocon.values import Node
from heliograph.hocon.walking import run_walk
from heliograph.settings.errors import ConfigSyntaxError
from heliograph.settings.reading import child_of

DEFAULTS: Final = "defaults"
BASE: Final = "base"
CLUSTER: Final = "cluster"
NODE: Final = "node"
ENVIRONMENT: Final = "environment"
COMMAND_LINE: Final = "command line"
#: The names of the layers, lowest first.
NAMES: Final = (DEFAULTS, BASE, CLUSTER, NODE, ENVIRONMENT, COMMAND_LINE)

BASE_FILE: Final = "base.hocon"
_CLUSTER_FILE: Final = ("configs", "cluster.hocon")
_DATA_DIR: Final = ("node", "data_dir")

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """What set a value: the layer, and the file and line, variable or command line."""

    layer: str
    position: SourcePosition

    def __str__(self) -> str:
        return self.layer if self.layer in (DEFAULTS, COMMAND_LINE) else f"{self.layer}: {self.position}"


@dataclass(frozen=True, slots=True)
class Layers:
    """All layers of one reading, a value that is never changed.

    Attributes:
        files: The trees of the layers that are files, by the names of the layers, lowest first; empty ones where
            there is no such file.
        cluster_file: Where the cluster's layer is, whether it exists or not.
        variables: The environment variables that name settings, in the order in which they apply.
    """

    sources: Sources
    files: Mapping[str, Node]
    cluster_file: Path
    variables: Sequence[Override]
    merged: Node = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "merged", self._merge())

    def with_cluster(self, tree: Node) -> Layers:
        return replace(self, files={**self.files, CLUSTER: tree})

    def origin(self, path: Sequence[str]) -> Origin | None:
        """What set the value at a path, or the newest of what is below it; None where only the default holds."""
        found = node_at(self.merged, path)
        if found is None:
            return None
        names = {variable.name for variable in self.variables}
        if found.position.source in names:
            return Origin(ENVIRONMENT, found.position)
        if found.position.source == COMMAND_LINE:
            return Origin(COMMAND_LINE, found.position)
        for layer in reversed(list(self.files)):
            if node_at(self.files[layer], path) is not None:
                return Origin(layer, found.position)
        return Origin(NODE, found.position)  # it came in by an edit of a list of another layer

    def _merge(self) -> Node:
        trees = [tree for tree in self.files.values() if tree.value]
        merged = trees[0] if trees else _NOTHING
        try:
            for tree in trees[1:]:
                merged = run_walk(merge_nodes(merged, tree))
            merged = apply_overrides(merged, self.variables)
            for path, text in self.sources.options.items():
                merged = set_value(merged, tuple(path.split(".")), Node(text, SourcePosition(COMMAND_LINE)))
        except HoconError as error:
            raise ConfigSyntaxError.of(error) from None
        return merged


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a node reads its configuration, as it was started; the same from its start to its end.

    Attributes:
        file: The node's file; without `base`, `base.hocon` beside it is below, if there is one.
        environ: The environment. Variables `HELIOGRAPH_A__B` set `a.b`.
        options: Values by dotted path that win over everything, taken as they are: a text is not read as HOCON.
    """

    file: str | os.PathLike[str] | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    base: str | os.PathLike[str] | None = None

    def read(self, before_cluster: Callable[[Path], object] = lambda data_dir: None) -> Layers:
        """Read every layer again; `before_cluster` is called with the data directory before that is read from.

        Raises:
            ConfigSyntaxError: A file or a variable is not HOCON, or a file that was named cannot be read.
        """
        layers = self._without_cluster()
        before_cluster(layers.cluster_file.parents[1])
        if not layers.cluster_file.is_file():
            return layers
        tree = parse(layers.cluster_file)
        refuse_data_dir(tree)
        return layers.with_cluster(tree)

    def _without_cluster(self) -> Layers:
        base = self._base()
        files = {
            BASE: _NOTHING if base is None else parse(base),
            CLUSTER: _NOTHING,
            NODE: _NOTHING if self.file is None else parse(self.file),
        }
        layers = Layers(self, files, Path(), known_overrides(self.environ))
        found = node_at(layers.merged, _DATA_DIR)
        named = found.value if found is not None and isinstance(found.value, str) else NodeConfig().data_dir
        return replace(layers, cluster_file=Path(named, *_CLUSTER_FILE))

    def _base(self) -> str | os.PathLike[str] | None:
        if self.base is not None or self.file is None:
            return self.base
        beside = Path(self.file).parent / BASE_FILE
        return beside if beside.is_file() else None


def known_overrides(environ: Mapping[str, str]) -> list[Override]:
    """The environment variables that set something the schema has a place for, in the order in which they apply."""
    ours = (replace(variable, path=our_path(variable.path)) for variable in environment_overrides(environ))
    return [variable for variable in ours if knows_path(variable.path)]


def parse(file: str | os.PathLike[str]) -> Node:
    """One file with what it includes; raises `ConfigSyntaxError`."""
    try:
        return in_our_form(parse_file(file))
    except HoconError as error:
        raise ConfigSyntaxError.of(_of_mosquitto(file) or error) from None


def _of_mosquitto(file: str | os.PathLike[str]) -> HoconError | None:
    """What is wrong with a file that is no HOCON, but a mosquitto.conf."""
    with suppress(OSError, UnicodeDecodeError):
        if is_of_mosquitto(Path(file).read_text(encoding="utf-8")):
            text = (
                "this is a mosquitto.conf: heliograph conf import makes a configuration of it (docs/from_mosquitto.md)"
            )
            return HoconError.at(SourcePosition(os.fspath(file)), text)
    return None


def refuse_data_dir(tree: Node) -> None:
    """Raises `ConfigSyntaxError` where a layer of the cluster has `node.data_dir`, which says where it is itself."""
    found = node_at(tree, _DATA_DIR)
    if found is not None:
        text = (
            "node.data_dir cannot be set here: this file is in the data directory, so that the setting would have to "
            "be known before it is read. Set it in the node's file, in HELIOGRAPH_NODE__DATA_DIR or with --data-dir"
        )
        raise ConfigSyntaxError.of(HoconError.at(found.position, text))


def node_at(tree: Node, path: Sequence[str]) -> Node | None:
    current: Node | None = tree
    for name in path:
        if current is None:
            return None
        current = child_of(current, name)
    return current


def leaves(tree: Node) -> Iterator[tuple[KeyPath, Node]]:
    """Each value of a tree that is no object, or an empty one, with its path; a list is one value."""
    pending: list[tuple[KeyPath, Node]] = [((), tree)]
    while pending:
        path, node = pending.pop()
        if isinstance(node.value, dict) and node.value:
            pending += [((*path, name), child) for name, child in reversed(node.value.items())]
        elif path:
            yield path, node


_NOTHING: Final = Node({}, SourcePosition(DEFAULTS))
