"""Rates and sizes of nodes, now and in the last seven days."""

import sqlite3
from typing import Annotated, Final

from fastapi import Query, Request

from heliograph.control.proto_v1.node import NODE_STATUS
from heliograph.management.asking.nodes import Node
from heliograph.management.history.history import History
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError

area = Area("Monitor", "Rates and sizes of nodes, now and in the last seven days.", scope="metrics")

_CLUSTER_ONLY: Final = ("subscriptions_durable", "disconnected_durable_sessions", "cluster_sessions")
_NO_HISTORY: Final = {400: ("BAD_RPC",)}

LatestParameter = Annotated[int | None, Query(ge=1, le=1_000_000_000, description="Only samples of so many seconds")]


@area.get("/monitor", errors=_NO_HISTORY)
async def get_monitor(request: Request, nodes: NodesDep, latest: LatestParameter = None) -> list[dict[str, int]]:
    """Samples of all nodes, added up; the oldest first."""
    return await _samples(request, nodes.all(), latest)


@area.delete("/monitor", errors=_NO_HISTORY)
async def clear_monitor(request: Request) -> None:
    """Forget all samples."""
    try:
        await _history(request).clear()
    except sqlite3.Error as error:
        raise ApiError(400, "BAD_RPC", f"the history cannot be cleared: {error}") from error


@area.get("/monitor/nodes/{node}", errors={**_NO_HISTORY, 404: ("NOT_FOUND",)})
async def get_node_monitor(
    node: str, request: Request, nodes: NodesDep, latest: LatestParameter = None
) -> list[dict[str, int]]:
    """Samples of one node; the oldest first."""
    return await _samples(request, [nodes.named(node)], latest)


@area.get("/monitor_current", errors=_NO_HISTORY)
async def get_monitor_current(request: Request, nodes: NodesDep) -> dict[str, int]:
    """Rates and sizes of all nodes, now."""
    totals: dict[str, int] = {}
    for node in nodes.all():
        for name, number in (await _history(request).current(node)).items():
            totals[name] = totals.get(name, 0) + number
    return totals


@area.get("/monitor_current/nodes/{node}", errors={**_NO_HISTORY, 404: ("NOT_FOUND",)})
async def get_node_monitor_current(node: str, request: Request, nodes: NodesDep) -> dict[str, int]:
    """Rates and sizes of one node, now."""
    asked = nodes.named(node)
    found = await _history(request).current(asked)
    status = await asked.ask(NODE_STATUS())
    kept = {name: number for name, number in found.items() if name not in _CLUSTER_ONLY}
    return {**kept, "node_uptime": status.uptime_s}


async def _samples(request: Request, nodes: list[Node], latest: int | None) -> list[dict[str, int]]:
    try:
        samples = await _history(request).read(nodes, latest)
    except sqlite3.Error as error:
        raise ApiError(400, "BAD_RPC", f"the history cannot be read: {error}") from error
    return [sample.shown() for sample in samples]


def _history(request: Request) -> History:
    history: History = request.app.state.history
    return history
