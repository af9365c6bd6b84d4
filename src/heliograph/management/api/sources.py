"""Sources, which do not exist here, and bridges, the old name of actions."""

from typing import Any, Final

from heliograph.control.proto_v1.actions import ACTIONS
from heliograph.management.api.actions import shown_actions
from heliograph.management.api.integration import (
    ActionMetrics,
    IntegrationObject,
    NamedSettings,
    id_of,
    metrics_of,
    row_of,
)
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError

area = Area("Sources", "There are no sources. Bridges are actions, read-only.", scope="sources")

_NONE: Final = (
    "there are no sources: what a rule reads is published to this broker, and the pipeline reads what is stored"
)


@area.get("/sources")
async def list_sources() -> list[dict[str, Any]]:
    """All sources; the list is empty."""
    return []


@area.post("/sources", status=201)
async def create_source(body: NamedSettings) -> dict[str, Any]:
    """Refused: no type of sources is there."""
    raise ApiError(400, "BAD_REQUEST", _NONE)


@area.post("/sources_probe", status=204)
async def probe_source(body: NamedSettings) -> None:
    """Refused: no type of sources is there."""
    raise ApiError(400, "BAD_REQUEST", _NONE)


@area.get("/sources/{id}", errors=MISSING)
async def get_source(id: str) -> dict[str, Any]:
    """One source; no source exists."""
    id_of(id)
    raise ApiError(404, "NOT_FOUND", _NONE)


@area.get("/sources_summary")
async def list_sources_summary() -> list[dict[str, Any]]:
    """A summary of all sources; the list is empty."""
    return []


@area.get("/source_types")
async def list_source_types() -> list[str]:
    """The types of sources; the list is empty."""
    return []


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
