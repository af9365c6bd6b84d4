"""Actions: what the pipeline does with the rows of the rules that name them."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from heliograph.config.actions.roots import ACTION_TYPES
from heliograph.control.proto_v1.actions import ACTIONS, ACTIONS_RESET
from heliograph.management.api.integration import (
    ActionMetrics,
    IntegrationNodeStatus,
    add_integration_routes,
    id_of,
    metrics_of,
    row_of,
)
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep

area = Area("Actions", "What the pipeline does with the rows of the rules that name an action.", scope="actions")

_SUMMARY = ("type", "name", "enable", "description", "tags", "rules", "status", "status_reason", "node_status")


class ActionSummary(TypedDict):
    """An action, without what its type adds."""

    type: str
    name: str
    enable: bool
    description: NotRequired[str]
    tags: NotRequired[list[str]]
    rules: list[str]
    status: str
    status_reason: str
    node_status: list[IntegrationNodeStatus]


shown_actions = add_integration_routes(
    area,
    "action",
    ACTIONS,
    lambda row: {"connector": row.connector, "rules": row.rules},
    "Delete an action; with `also_delete_dep_actions` it is taken out of the rules that name it.",
)


@area.get("/actions/{id}/metrics", errors=MISSING)
async def get_action_metrics(id: str, nodes: NodesDep) -> ActionMetrics:
    """The counters of an action."""
    return metrics_of(await row_of(nodes.own, ACTIONS, id), nodes.own.name)


@area.put("/actions/{id}/metrics/reset", status=204, errors=MISSING)
async def reset_action_metrics(id: str, nodes: NodesDep) -> None:
    """Reset the counters of an action."""
    with answering():
        await nodes.own.ask(ACTIONS_RESET(id_of(id)))


@area.get("/actions_summary", answers=list[ActionSummary])
async def list_actions_summary(nodes: NodesDep) -> list[dict[str, Any]]:
    """A summary of all actions."""
    rows = await shown_actions(nodes, await nodes.own.rows(ACTIONS.list()))
    return [{name: row[name] for name in _SUMMARY if name in row} for row in rows]


@area.get("/action_types")
async def list_action_types() -> list[str]:
    """The types of actions."""
    return list(ACTION_TYPES)
