"""What the routes of connectors, actions and bridges share: their ids, bodies, and how they are shown."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import ConfigDict, Field

from heliograph.control.proto_v1.actions import ActionId, ActionRow, ConnectorRow, IntegrationAsks
from heliograph.management.asking.nodes import Node
from heliograph.management.asking.settings_trees import NO_SETTING, settings_tree
from heliograph.management.asking.states import action_metrics
from heliograph.management.web.asked_nodes import AskedNodes
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Row, Str
from heliograph.rpc.methods import RpcError

AnyRow = TypeVar("AnyRow", ConnectorRow, ActionRow)

MISSING: Final = {404: ("NOT_FOUND",)}
INVALID: Final = {400: ("BAD_REQUEST",)}
NEW: Final = {400: ("BAD_REQUEST", "ALREADY_EXISTS")}
TESTED: Final = {400: ("BAD_REQUEST", "TEST_FAILED")}
PROBE_S: Final = 60.0
"""How long a test of a connection may take."""

# Keys that only answers have: what was read may be sent back.
_ONLY_READ: Final = (
    *("status", "status_reason", "node_status", "actions", "sources", "rules", "created_at", "last_modified_at"),
    *("type", "name"),
)


class Settings(Row):
    """The settings of a connector or an action, as docs/configuration.md has those of its type."""

    enable: bool = True
    description: str = ""

    def plain(self) -> dict[str, Any]:
        """What the configuration says of it."""
        plain = self.model_dump(exclude_unset=True)
        return {name: value for name, value in plain.items() if name not in _ONLY_READ}

    def text(self) -> str:
        """The same as text."""
        return json.dumps(self.plain())


class NamedSettings(Settings):
    """Settings with the type and the name."""

    type: Str = Field(examples=["http"])
    name: Str = Field(examples=["my_name"])


class Shown(Row):
    """A connector or an action as it is, with stars for secrets."""

    model_config = ConfigDict(extra="allow")

    type: str
    name: str
    enable: bool
    status: str
    status_reason: str
    node_status: list[dict[str, Any]]


def id_of(text: str) -> ActionId:
    """The type and name of an id such as `http:my_action`.

    Raises:
        ApiError: 400, it is not one.
    """
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ApiError(400, "BAD_REQUEST", f"{text[:200]!r} is no id: one is type:name, as http:my_action")
    return ActionId(kind, name)


async def row_of(node: Node, asks: IntegrationAsks[AnyRow], text: str) -> AnyRow:
    """One of them by its id.

    Raises:
        ApiError: 404, there is none; 400, it is no id.
    """
    wanted = id_of(text)
    rows: list[AnyRow] = await node.rows(asks.list())
    for one in rows:
        if (one.type, one.name) == (wanted.type, wanted.name):
            return one
    raise ApiError(404, "NOT_FOUND", f"there is no {asks.area.removesuffix('s')} {text[:200]!r}")


async def shown(
    nodes: AskedNodes, root: str, rows: Sequence[AnyRow], more: Callable[[AnyRow], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Some of them with their settings.

    Args:
        more: What answers have of one besides.
    """
    if not rows:
        return []
    try:
        tree = await settings_tree(nodes.own, root)
    except RpcError as error:
        if error.code != NO_SETTING:
            raise
        tree = {}  # the last one is gone meanwhile
    return [
        {
            **_plain(tree.get(row.type, {}).get(row.name, {})),
            **more(row),
            "type": row.type,
            "name": row.name,
            "enable": row.is_enabled,
            **status_of(row, nodes.own.name),
        }
        for row in rows
    ]


def status_of(row: ConnectorRow | ActionRow, node: str) -> dict[str, Any]:
    """How one is, on each node."""
    one = {"status": row.status, "status_reason": row.reason}
    return {**one, "node_status": [{"node": node, **one}]}


def metrics_of(row: ActionRow, node: str) -> dict[str, Any]:
    """What is counted of an action, on each node."""
    metrics = action_metrics(row)
    return {"metrics": metrics, "node_metrics": [{"node": node, "metrics": metrics}]}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that have no value; TLS that is not spoken is switched off."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found[name] = _plain(value)
        elif name == "ssl" and value in (None, "none"):
            found[name] = {"enable": False}
        elif value is not None:
            found[name] = value
    return found
