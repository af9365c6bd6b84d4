"""What a change asks for, and the layer that results: HOCON laid over it, roots replaced, or single values set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.config.layers import CLUSTER, KeyPath, Layers, refuse_data_dir
from heliograph.config_changes.errors import ConfigRefusedError
from heliograph.hocon.document import parse_text
from heliograph.hocon.environment import read_value
from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.merging import merge_nodes
from heliograph.hocon.values import Node
from heliograph.hocon.walking import Walk, run_walk
from heliograph.settings.masking import NoSecretError, kept_secrets

MERGE: Final = "merge"
REPLACE: Final = "replace"
WHOLE: Final = "whole"
_NAME: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^."]+)')


@dataclass(frozen=True, slots=True)
class Edit:
    """What is asked for: a text, or values for single paths; `null` unsets a value, so that lower layers hold.

    Attributes:
        mode: How the text changes the layer: objects merge (`MERGE`), each root of the text replaces that root
            (`REPLACE`), or the text is the whole layer (`WHOLE`).
        values: Texts by dotted path, each read as HOCON or else taken as the text that it is.
    """

    text: str = ""
    mode: str = MERGE
    values: Sequence[tuple[str, str]] = ()
    name: str = "<change>"


def edited(layers: Layers, edit: Edit) -> Node:
    """The cluster's layer after an edit; raises `ConfigRefusedError`, or `ConfigSyntaxError` for what it cannot set."""
    own = layers.files[CLUSTER]
    try:
        asked = _asked(edit)
        asked = kept_secrets(asked, own, layers.merged)
        tree = run_walk(merge_nodes(own, asked)) if edit.mode == MERGE else _replaced(own, asked, edit.mode)
    except HoconError as error:
        raise ConfigRefusedError([f"[{error.code}] {error}"]) from None
    except NoSecretError as error:
        raise ConfigRefusedError([f"{error.node.position}: {error}"]) from None
    tree = run_walk(_without_nulls(tree))
    refuse_data_dir(tree)
    return tree


def path_of(text: str) -> KeyPath:
    """A name with dots is in quotes; raises `ConfigRefusedError`."""
    names: list[str] = []
    at = 0
    while True:
        found = _NAME.match(text, at)
        if found is None:
            raise ConfigRefusedError(
                [f"{text!r} is no path of a setting: expected names with dots, as in mqtt.max_inflight"]
            )
        names.append(found[2] if found[1] is None else found[1])
        at = found.end()
        if at == len(text):
            return tuple(names)
        if text[at] != ".":
            raise ConfigRefusedError([f"{text!r} is no path of a setting: expected a dot before {text[at:]!r}"])
        at += 1


def _asked(edit: Edit) -> Node:
    tree = parse_text(edit.text, name=edit.name, files=MemoryFiles({}))  # askers may not see the node's files
    for path, text in edit.values:
        value = read_value(text, edit.name) or Node(
            None, SourcePosition(edit.name)
        )  # it may be a secret: not in a name
        for name in reversed(path_of(path)):
            value = Node({name: value}, value.position)
        tree = run_walk(merge_nodes(tree, value))
    return tree


def _replaced(own: Node, asked: Node, mode: str) -> Node:
    assert isinstance(own.value, dict)
    assert isinstance(asked.value, dict)
    return Node({**({} if mode == WHOLE else own.value), **asked.value}, asked.position)


def _without_nulls(node: Node) -> Walk[Node]:
    if not isinstance(node.value, dict):
        return node
    fields = {}
    for name, child in node.value.items():
        if child.value is not None:
            fields[name] = yield _without_nulls(child)
    return Node(fields, node.position, node.source)
