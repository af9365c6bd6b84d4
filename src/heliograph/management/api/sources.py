"""Sources: where messages come in from elsewhere; and bridges, the old name of actions."""

from typing import Any

from heliograph.config.sources.roots import SOURCE_TYPES
from heliograph.control.proto_v1.actions import ACTIONS, SOURCES, SOURCES_RESET
from heliograph.management.api.actions import shown_actions
from heliograph.management.api.integration import (
    ActionMetrics,
    IntegrationObject,
    add_counted_routes,
    add_integration_routes,
    metrics_of,
    row_of,
)
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep

area = Area("Sources", "Messages that come in from elsewhere. Bridges are actions, read-only.", scope="sources")

shown_sources = add_integration_routes(
    area,
    "source",
    SOURCES,
    lambda row: {**({"connector": row.connector} if row.connector else {}), "rules": row.rules},
    "Delete a source; with `also_delete_dep_actions` also where rules read it, which then get nothing of it.",
)

add_counted_routes(area, "source", SOURCES, SOURCES_RESET, SOURCE_TYPES, shown_sources)


@area.get("/bridges", scope="actions:read", answers=list[IntegrationObject])
async def list_bridges(nodes: NodesDep) -> list[dict[str, Any]]:
    """All actions."""
    return await shown_actions(nodes, await nodes.own.rows(ACTIONS.list()))


@area.get("/bridges/{id}", scope="actions:read", answers=IntegrationObject, errors=MISSING)
async def get_bridge(id: str, nodes: NodesDep) -> dict[str, Any]:
    """One action."""
    return (await shown_actions(nodes, [await row_of(nodes.own, ACTIONS, id)]))[0]


@area.get("/bridges/{id}/metrics", scope="actions:read", errors=MISSING)
async def get_bridge_metrics(id: str, nodes: NodesDep) -> ActionMetrics:
    """The counters of an action."""
    return metrics_of(await row_of(nodes.own, ACTIONS, id), nodes.own.name)
