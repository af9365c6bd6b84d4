"""Sources: where messages come in from elsewhere; and bridges, the old name of actions."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from heliograph.config.sources.roots import SOURCE_TYPES
from heliograph.control.proto_v1.actions import ACTIONS, SOURCES, SOURCES_RESET
from heliograph.management.api.actions import shown_actions
from heliograph.management.api.integration import (
    ActionMetrics,
    IntegrationNodeStatus,
    IntegrationObject,
    add_integration_routes,
    id_of,
    metrics_of,
    row_of,
)
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep

area = Area("Sources", "Messages that come in from elsewhere. Bridges are actions, read-only.", scope="sources")

_SUMMARY = ("type", "name", "enable", "description", "tags", "rules", "status", "status_reason", "node_status")


class SourceSummary(TypedDict):
    """A source, without what its type adds."""

    type: str
    name: str
    enable: bool
    description: NotRequired[str]
    tags: NotRequired[list[str]]
    rules: list[str]
    status: str
    status_reason: str
    node_status: list[IntegrationNodeStatus]


shown_sources = add_integration_routes(
    area,
    "source",
    SOURCES,
    lambda row: {**({"connector": row.connector} if row.connector else {}), "rules": row.rules},
    "Delete a source; with `also_delete_dep_actions` also where rules read it, which then get nothing of it.",
)


@area.get("/sources/{id}/metrics", errors=MISSING)
async def get_source_metrics(id: str, nodes: NodesDep) -> ActionMetrics:
    """The counters of a source."""
    return metrics_of(await row_of(nodes.own, SOURCES, id), nodes.own.name)


@area.put("/sources/{id}/metrics/reset", status=204, errors=MISSING)
async def reset_source_metrics(id: str, nodes: NodesDep) -> None:
    """Reset the counters of a source."""
    with answering():
        await nodes.own.ask(SOURCES_RESET(id_of(id)))


@area.get("/sources_summary", answers=list[SourceSummary])
async def list_sources_summary(nodes: NodesDep) -> list[dict[str, Any]]:
    """A summary of all sources."""
    rows = await shown_sources(nodes, await nodes.own.rows(SOURCES.list()))
    return [{name: row[name] for name in _SUMMARY if name in row} for row in rows]


@area.get("/source_types")
async def list_source_types() -> list[str]:
    """The types of sources."""
    return list(SOURCE_TYPES)


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
