"""What routes share that read and change a group of settings."""

from typing import Any, TypeAlias

from heliograph.management.asking.nodes import Node
from heliograph.management.asking.settings_trees import merge_settings, settings_tree
from heliograph.management.web.answering import refused_as
from heliograph.management.web.errors import ApiError

SettingsTree: TypeAlias = dict[str, Any]
"""A group of settings, as `GET /schemas/hotconf` describes it."""


async def read_settings(node: Node, path: str) -> dict[str, Any]:
    """The settings of a group."""
    return await settings_tree(node, path)


async def read_list(node: Node, path: str) -> list[dict[str, Any]]:
    """The objects of a setting that is a list."""
    tree = await settings_tree(node, path)
    found: Any = tree.get("", [])
    return found if isinstance(found, list) else []


async def change_settings(node: Node, path: str, values: object, code: str = "UPDATE_FAILED") -> None:
    """Set these values of a group; others stay.

    Raises:
        ApiError: 400, the node refuses them.
    """
    try:
        with refused_as(code):
            await merge_settings(node, path, values)
    except TypeError as error:  # an integer that JSON can hold and nothing else
        raise ApiError(400, code, str(error)) from error
