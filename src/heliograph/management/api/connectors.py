"""Connectors: the servers and places to which actions bring the rows of rules."""

from typing import Any, Literal

from heliograph.control.proto_v1.actions import (
    CONNECTORS,
    ActionDelete,
    ActionPut,
    ActionSwitch,
    ConnectorRow,
)
from heliograph.management.api.integration import (
    INVALID,
    MISSING,
    NEW,
    PROBE_S,
    TESTED,
    NamedSettings,
    Settings,
    Shown,
    id_of,
    row_of,
    shown,
)
from heliograph.management.api.people import CallerDep
from heliograph.management.api.secret_places import check_secrets_stay
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError

area = Area("Connectors", "Servers and places to which actions bring the rows of rules.")


@area.get("/connectors", scope="connectors:read", response_model=list[Shown])
async def list_connectors(nodes: NodesDep) -> list[dict[str, Any]]:
    """All connectors."""
    return await _shown(nodes, await nodes.own.rows(CONNECTORS.list()))


@area.post("/connectors", scope="connectors:write", status=201, response_model=Shown, errors=NEW)
async def create_connector(body: NamedSettings, nodes: NodesDep) -> dict[str, Any]:
    """Make a connector."""
    put = ActionPut(body.type, body.name, body.text(), is_new=True)
    with answering(already_exists=(400, "ALREADY_EXISTS")):
        await nodes.own.ask(CONNECTORS.put(put))
    return await _one(nodes, f"{body.type}:{body.name}")


@area.get("/connectors/{id}", scope="connectors:read", response_model=Shown, errors={**MISSING, **INVALID})
async def get_connector(id: str, nodes: NodesDep) -> dict[str, Any]:
    """One connector."""
    return await _one(nodes, id)


@area.put("/connectors/{id}", scope="connectors:write", response_model=Shown, errors={**MISSING, **INVALID})
async def put_connector(id: str, body: Settings, nodes: NodesDep, caller: CallerDep) -> dict[str, Any]:
    """Replace the settings of a connector."""
    row = await row_of(nodes.own, CONNECTORS, id)
    await check_secrets_stay(caller, nodes.own, (CONNECTORS.area, row.type, row.name), body.plain())
    with answering():
        await nodes.own.ask(CONNECTORS.put(ActionPut(row.type, row.name, body.text())))
    return await _one(nodes, id)


@area.delete("/connectors/{id}", scope="connectors:write", errors={**MISSING, **INVALID})
async def delete_connector(id: str, nodes: NodesDep, also_delete_dep_actions: bool = False) -> None:
    """Delete a connector."""
    row = await row_of(nodes.own, CONNECTORS, id)
    if row.actions and not also_delete_dep_actions:
        told = f"actions use the connector {id}: {', '.join(row.actions)}"
        raise ApiError(400, "BAD_REQUEST", told, active_channels=[f"{row.type}:{one}" for one in row.actions])
    with answering():
        gone = ActionDelete(row.type, row.name, also_delete_dep_actions)
        await nodes.own.ask(CONNECTORS.delete(gone))


@area.put("/connectors/{id}/enable/{enable}", scope="connectors:write", status=204, errors={**MISSING, **INVALID})
async def enable_connector(id: str, enable: bool, nodes: NodesDep) -> None:
    """Enable a connector, or disable it with its actions."""
    wanted = id_of(id)
    with answering():
        switch = ActionSwitch(wanted.type, wanted.name, enable)
        await nodes.own.ask(CONNECTORS.switch(switch))


@area.post("/connectors/{id}/{operation}", scope="connectors:write", status=204, errors={**MISSING, **INVALID})
async def operate_connector(id: str, operation: Literal["start", "restart"], nodes: NodesDep) -> None:
    """Connect now."""
    await _start(nodes, id)


@area.post(
    "/nodes/{node}/connectors/{id}/{operation}",
    scope="connectors:write",
    status=204,
    errors={**MISSING, **INVALID},
)
async def operate_connector_on_node(
    node: str, id: str, operation: Literal["start", "restart"], nodes: NodesDep
) -> None:
    """Connect now, on one node."""
    nodes.named(node)
    await _start(nodes, id)


@area.post("/connectors_probe", scope="connectors:write", status=204, errors=TESTED)
async def probe_connector(body: NamedSettings, nodes: NodesDep, caller: CallerDep) -> None:
    """Check that a server can be reached and accepts the login."""
    await check_secrets_stay(caller, nodes.own, (CONNECTORS.area, body.type, body.name), body.plain())
    with answering(action_test_failed=(400, "TEST_FAILED")):
        await nodes.own.ask(CONNECTORS.probe(ActionPut(body.type, body.name, body.text())), timeout_s=PROBE_S)


async def _start(nodes: AskedNodes, text: str) -> None:
    with answering():
        row = await nodes.own.ask(CONNECTORS.start(id_of(text)))
    if row.status == "disconnected":
        raise ApiError(400, "BAD_REQUEST", row.reason)


async def _one(nodes: AskedNodes, text: str) -> dict[str, Any]:
    (found,) = await _shown(nodes, [await row_of(nodes.own, CONNECTORS, text)])
    return found


async def _shown(nodes: AskedNodes, rows: list[ConnectorRow]) -> list[dict[str, Any]]:
    return await shown(nodes, CONNECTORS.area, rows, lambda row: {"actions": row.actions, "sources": []})
