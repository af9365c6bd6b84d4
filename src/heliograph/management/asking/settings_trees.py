"""The configuration of a node as trees of plain values: read, and changed as the HTTP API has it."""

import json
from typing import Any, Final

import orjson

from heliograph.control.proto_v1.conf import (
    CONF_CHANGE,
    CONF_SHOW,
    ConfChangeArgs,
    ConfOutcome,
    ConfSetting,
    ConfShowArgs,
)
from heliograph.management.asking.nodes import Node

NO_SETTING: Final = "config_no_setting"  # what a node says of a path; all else it says is no answer to that


async def settings_tree(node: Node, path: str = "", *, hides_sent: bool = False) -> dict[str, Any]:
    """The settings at a path, defaults included, with stars for secrets; durations and sizes are texts with units.

    Args:
        hides_sent: Whether what servers are sent has stars for its constant texts.

    Raises:
        RpcError: There is no such setting.
    """
    rows = await node.rows(CONF_SHOW(ConfShowArgs(path, hides_sent=hides_sent)))
    return tree_of(rows, path)


def tree_of(rows: list[ConfSetting], path: str = "") -> dict[str, Any]:
    """Rows as a tree, without the names of the path that all of them are below."""
    tree: dict[str, Any] = {}
    depth = len(names_of(path)) if path else 0
    for row in rows:
        *groups, name = names_of(row.path)[depth:] or [""]
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = orjson.loads(row.plain)
    return tree


def names_of(path: str) -> list[str]:
    """The names of a dotted path, of which some are in quotes."""
    names: list[str] = []
    rest = path
    while rest:
        if rest.startswith('"'):
            end = 1
            while rest[end] != '"':
                end += 2 if rest[end] == "\\" else 1
            names.append(str(orjson.loads(rest[: end + 1])))
            rest = rest[end + 2 :]
        else:
            name, _, rest = rest.partition(".")
            names.append(name)
    return names


async def merge_settings(node: Node, path: str, values: object, comment: str = "") -> ConfOutcome:
    """Set these values below a path; others stay.

    Args:
        values: Plain values; None unsets.

    Raises:
        RpcError: It was refused.
    """
    args = ConfChangeArgs(values=((path, json.dumps(values)),), comment=comment)
    return await node.ask(CONF_CHANGE(args))


async def replace_root(node: Node, root: str, values: object) -> ConfOutcome:
    """Replace a root of the configuration.

    Raises:
        RpcError: It was refused.
    """
    text = json.dumps({root: values})
    return await node.ask(CONF_CHANGE(ConfChangeArgs(text=text, mode="replace")))
