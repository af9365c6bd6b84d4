"""Actions: what the pipeline does with the rows of the rules that name them."""

from typing import Any, Literal

from heliograph.config.actions.roots import TYPES
from heliograph.control.proto_v1.actions import (
    ACTIONS,
    ACTIONS_RESET,
    ActionDelete,
    ActionPut,
    ActionRow,
    ActionSwitch,
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
    metrics_of,
    row_of,
    shown,
)
from heliograph.management.api.people import CallerDep
from heliograph.management.api.secret_places import check_secrets_stay
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError

area = Area("Actions", "What the pipeline does with the rows of the rules that name an action.")


@area.get("/actions", scope="actions:read", response_model=list[Shown])
async def list_actions(nodes: NodesDep) -> list[dict[str, Any]]:
    """All actions."""
    return await _shown(nodes, await nodes.own.rows(ACTIONS.list()))


@area.post("/actions", scope="actions:write", status=201, response_model=Shown, errors=NEW)
async def create_action(body: NamedSettings, nodes: NodesDep) -> dict[str, Any]:
    """Make an action."""
    put = ActionPut(body.type, body.name, body.text(), is_new=True)
    with answering(already_exists=(400, "ALREADY_EXISTS")):
        await nodes.own.ask(ACTIONS.put(put))
    return await _one(nodes, f"{body.type}:{body.name}")


@area.get("/actions/{id}", scope="actions:read", response_model=Shown, errors={**MISSING, **INVALID})
async def get_action(id: str, nodes: NodesDep) -> dict[str, Any]:
    """One action."""
    return await _one(nodes, id)


@area.put("/actions/{id}", scope="actions:write", response_model=Shown, errors={**MISSING, **INVALID})
async def put_action(id: str, body: Settings, nodes: NodesDep, caller: CallerDep) -> dict[str, Any]:
    """Replace the settings of an action."""
    row = await row_of(nodes.own, ACTIONS, id)
    await check_secrets_stay(caller, nodes.own, (ACTIONS.area, row.type, row.name), body.plain())
    with answering():
        await nodes.own.ask(ACTIONS.put(ActionPut(row.type, row.name, body.text())))
    return await _one(nodes, id)


@area.delete("/actions/{id}", scope="actions:write", errors={**MISSING, **INVALID})
async def delete_action(id: str, nodes: NodesDep, also_delete_dep_actions: bool = False) -> None:
    """Delete an action; with `also_delete_dep_actions` it is taken out of the rules that name it."""
    row = await row_of(nodes.own, ACTIONS, id)
    if row.rules and not also_delete_dep_actions:
        told = "Cannot delete action while active rules are depending on it"
        raise ApiError(400, "BAD_REQUEST", told, rules=row.rules)
    with answering():
        gone = ActionDelete(row.type, row.name, also_delete_dep_actions)
        await nodes.own.ask(ACTIONS.delete(gone))


@area.put("/actions/{id}/enable/{enable}", scope="actions:write", status=204, errors={**MISSING, **INVALID})
async def enable_action(id: str, enable: bool, nodes: NodesDep) -> None:
    """Enable an action, or disable it."""
    wanted = id_of(id)
    with answering():
        await nodes.own.ask(ACTIONS.switch(ActionSwitch(wanted.type, wanted.name, enable)))


@area.get("/actions/{id}/metrics", scope="actions:read", errors={**MISSING, **INVALID})
async def get_action_metrics(id: str, nodes: NodesDep) -> dict[str, Any]:
    """The counters of an action."""
    return metrics_of(await row_of(nodes.own, ACTIONS, id), nodes.own.name)


@area.put("/actions/{id}/metrics/reset", scope="actions:write", status=204, errors={**MISSING, **INVALID})
async def reset_action_metrics(id: str, nodes: NodesDep) -> None:
    """Reset the counters of an action."""
    with answering():
        await nodes.own.ask(ACTIONS_RESET(id_of(id)))


@area.post("/actions/{id}/{operation}", scope="actions:write", status=204, errors={**MISSING, **INVALID})
async def operate_action(id: str, operation: Literal["start", "restart"], nodes: NodesDep) -> None:
    """Connect now; the pipeline starts again what waits after a failure."""
    await _start(nodes, id)


@area.post("/nodes/{node}/actions/{id}/{operation}", scope="actions:write", status=204, errors={**MISSING, **INVALID})
async def operate_action_on_node(node: str, id: str, operation: Literal["start", "restart"], nodes: NodesDep) -> None:
    """Connect now, on one node."""
    nodes.named(node)
    await _start(nodes, id)


@area.post("/actions_probe", scope="actions:write", status=204, errors=TESTED)
async def probe_action(body: NamedSettings, nodes: NodesDep, caller: CallerDep) -> None:
    """Check that the target of an action can be reached and accepts the login; nothing is written."""
    await check_secrets_stay(caller, nodes.own, (ACTIONS.area, body.type, body.name), body.plain())
    with answering(action_test_failed=(400, "TEST_FAILED")):
        await nodes.own.ask(ACTIONS.probe(ActionPut(body.type, body.name, body.text())), timeout_s=PROBE_S)


@area.get("/actions_summary", scope="actions:read")
async def list_actions_summary(nodes: NodesDep) -> list[dict[str, Any]]:
    """A summary of all actions."""
    rows = await _shown(nodes, await nodes.own.rows(ACTIONS.list()))
    return [{name: row[name] for name in _SUMMARY if name in row} for row in rows]


@area.get("/action_types", scope="actions:read")
async def list_action_types() -> list[str]:
    """The types of actions."""
    return list(TYPES)


_SUMMARY = ("type", "name", "enable", "description", "tags", "rules", "status", "status_reason", "node_status")


async def _start(nodes: AskedNodes, text: str) -> None:
    with answering():
        row = await nodes.own.ask(ACTIONS.start(id_of(text)))
    if row.status == "disconnected":
        raise ApiError(400, "BAD_REQUEST", row.reason)


async def _one(nodes: AskedNodes, text: str) -> dict[str, Any]:
    (found,) = await _shown(nodes, [await row_of(nodes.own, ACTIONS, text)])
    return found


async def _shown(nodes: AskedNodes, rows: list[ActionRow]) -> list[dict[str, Any]]:
    return await shown(nodes, ACTIONS.area, rows, lambda row: {"connector": row.connector, "rules": row.rules})
