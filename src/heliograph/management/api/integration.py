"""What the routes of connectors, actions, sources and bridges share: their ids, bodies, and how they are shown."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired, TypeVar

from pydantic import Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.actions import ActionRow, ConnectorRow, IntegrationAsks, SourceRow
from heliograph.control.proto_v1.groups import GroupRemoval, GroupSettings, GroupSwitch, NamedGroup
from heliograph.management.api.named_files import check_files
from heliograph.management.api.people import CallerDep
from heliograph.management.api.secret_places import check_secrets_stay
from heliograph.management.asking.nodes import Node
from heliograph.management.asking.settings_trees import NO_SETTING, settings_tree
from heliograph.management.asking.states import NodeMetrics, metrics_in
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Row, Str
from heliograph.rpc.asks import Ask
from heliograph.rpc.methods import RpcError

AnyRow = TypeVar("AnyRow", ConnectorRow, ActionRow, SourceRow)
AnyCountedRow = TypeVar("AnyCountedRow", ActionRow, SourceRow)

PROBE_S: Final = 60.0
"""How long a test of a connection may take."""

# Keys that only answers have: what was read may be sent back.
_ONLY_READ: Final = (
    *("status", "status_reason", "node_status", "actions", "sources", "rules", "created_at", "last_modified_at"),
    *("type", "name"),
)


class Settings(Row):
    """The settings of a connector, an action or a source, as docs/configuration.md has those of its type."""

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

    @property
    def id(self) -> str:
        return f"{self.type}:{self.name}"


class IntegrationNodeStatus(TypedDict):
    """How a connector or an action is on one node."""

    node: str
    status: str
    status_reason: str


class IntegrationObject(TypedDict):
    """A connector, an action or a source with its settings, which have more keys than these; stars for secrets.

    Attributes:
        connector: Of an action, or of a source.
        rules: Those that name an action, or read a source.
        actions: Those that use a connector.
        sources: Those that use a connector.
    """

    type: str
    name: str
    enable: bool
    status: str
    status_reason: str
    node_status: list[IntegrationNodeStatus]
    description: NotRequired[str]
    tags: NotRequired[list[str]]
    connector: NotRequired[str]
    rules: NotRequired[list[str]]
    actions: NotRequired[list[str]]
    sources: NotRequired[list[str]]


class IntegrationSummary(TypedDict):
    """An action or a source, without what its type adds."""

    type: str
    name: str
    enable: bool
    description: NotRequired[str]
    tags: NotRequired[list[str]]
    rules: list[str]
    status: str
    status_reason: str
    node_status: list[IntegrationNodeStatus]


class ActionMetrics(TypedDict):
    """What is counted of an action, or of a source.

    Attributes:
        metrics: Counts, bytes that wait, and rates per second.
    """

    metrics: dict[str, float]
    node_metrics: list[NodeMetrics]


def id_of(text: str) -> NamedGroup:
    """The id of a connector, an action or a source, such as `http:my_action`.

    Raises:
        ApiError: 400, it is not one.
    """
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ApiError(400, "BAD_REQUEST", f"{text[:200]!r} is no id: one is type:name, as http:my_action")
    return NamedGroup(text)


async def row_of(node: Node, asks: IntegrationAsks[AnyRow], text: str) -> AnyRow:
    """One of them by its id.

    Raises:
        ApiError: 404, there is none; 400, it is no id.
    """
    wanted = id_of(text)
    rows: list[AnyRow] = await node.rows(asks.list())
    for one in rows:
        if f"{one.type}:{one.name}" == wanted.name:
            return one
    raise ApiError(404, "NOT_FOUND", f"there is no {asks.area.removesuffix('s')} {text[:200]!r}")


def add_integration_routes(
    area: Area, one: str, asks: IntegrationAsks[AnyRow], more: Callable[[AnyRow], Mapping[str, Any]], deleted: str
) -> Callable[[AskedNodes, Sequence[AnyRow]], Awaitable[list[dict[str, Any]]]]:
    """Add the routes that connectors and actions share.

    Args:
        one: `connector`, `action` or `source`.
        asks: What a node is asked.
        more: What answers have of one besides its settings and status.
        deleted: What the document says of DELETE.

    Returns:
        What makes answers of rows.
    """
    many, a_one = asks.area, _A[one]
    by_id = f"/{many}/{{id}}"
    connects = "Connect now, and try again what failed." if one == "action" else "Connect now."

    async def shown_rows(nodes: AskedNodes, rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
        return await shown(nodes, many, rows, more)

    @area.get(f"/{many}", name=f"list_{many}", description=f"All {many}.", answers=list[IntegrationObject])
    async def get_all(nodes: NodesDep) -> list[dict[str, Any]]:
        return await shown_rows(nodes, await nodes.own.rows(asks.list()))

    @area.get(by_id, name=f"get_{one}", description=f"One {one}.", answers=IntegrationObject, errors=MISSING)
    async def get_one(id: str, nodes: NodesDep) -> dict[str, Any]:
        (answer,) = await shown_rows(nodes, [await row_of(nodes.own, asks, id)])
        return answer

    new = {"status": 201, "answers": IntegrationObject, "errors": {400: ("ALREADY_EXISTS",)}}

    @area.post(f"/{many}", name=f"create_{one}", description=f"Create {a_one}.", **new)
    async def create(body: NamedSettings, nodes: NodesDep, caller: CallerDep) -> dict[str, Any]:
        await check_files(caller, nodes.own, (many, body.type, body.name), body.plain())
        with answering():
            await nodes.own.ask(asks.put(GroupSettings(body.id, body.text(), is_new=True)))
        return await get_one(body.id, nodes)

    replaces = f"Replace the settings of {a_one}."

    @area.put(by_id, name=f"put_{one}", description=replaces, answers=IntegrationObject, errors=MISSING)
    async def put(id: str, body: Settings, nodes: NodesDep, caller: CallerDep) -> dict[str, Any]:
        row = await row_of(nodes.own, asks, id)
        place = (many, row.type, row.name)
        await check_files(caller, nodes.own, place, body.plain())
        await check_secrets_stay(caller, nodes.own, place, body.plain())
        with answering():
            await nodes.own.ask(asks.put(GroupSettings(id, body.text())))
        return await get_one(id, nodes)

    @area.delete(by_id, name=f"delete_{one}", description=deleted, errors=MISSING)
    async def delete(id: str, nodes: NodesDep, also_delete_dep_actions: bool = False) -> None:
        id_of(id)
        try:
            with answering(bad_arguments=(404, "NOT_FOUND")):
                await nodes.own.ask(asks.delete(GroupRemoval(id, also_delete_dep_actions)))
        except RpcError as error:
            if error.code != "in_use":
                raise
            users: dict[str, Any] = {}
            for kind, names in error.details.items():
                users.setdefault(_USERS[kind], []).extend(names)
            raise ApiError(400, "BAD_REQUEST", error.message, **users) from error

    enables = f"Enable or disable {a_one}{' with its actions and sources' if one == 'connector' else ''}."

    @area.put(f"{by_id}/enable/{{enable}}", name=f"enable_{one}", description=enables, status=204, errors=MISSING)
    async def enable(id: str, enable: bool, nodes: NodesDep) -> None:
        id_of(id)
        with answering():
            await nodes.own.ask(asks.switch(GroupSwitch(id, enable)))

    operates = {"status": 204, "errors": MISSING}

    @area.post(f"{by_id}/{{operation}}", name=f"operate_{one}", description=connects, **operates)
    async def operate(id: str, operation: Literal["start", "restart"], nodes: NodesDep) -> None:
        with answering():
            row = await nodes.own.ask(asks.start(id_of(id)))
        if row.status == "disconnected":
            raise ApiError(400, "BAD_REQUEST", row.reason)

    there, on_node = f"/nodes/{{node}}{by_id}/{{operation}}", f"On one node: {connects.lower()}"

    @area.post(there, name=f"operate_{one}_on_node", description=on_node, **operates)
    async def operate_on_node(node: str, id: str, operation: Literal["start", "restart"], nodes: NodesDep) -> None:
        nodes.named(node)
        await operate(id, operation, nodes)

    probes = f"Check that the server of {a_one} can be reached and accepts the login; nothing is written."

    @area.post(f"/{many}_probe", name=f"probe_{one}", description=probes, status=204, errors={400: ("TEST_FAILED",)})
    async def probe(body: NamedSettings, nodes: NodesDep, caller: CallerDep) -> None:
        place = (many, body.type, body.name)
        await check_files(caller, nodes.own, place, body.plain())
        await check_secrets_stay(caller, nodes.own, place, body.plain())
        with answering(action_test_failed=(400, "TEST_FAILED")):
            await nodes.own.ask(asks.probe(GroupSettings(body.id, body.text())), timeout_s=PROBE_S)

    return shown_rows


def add_counted_routes(
    area: Area,
    one: str,
    asks: IntegrationAsks[AnyCountedRow],
    reset: Ask[NamedGroup, Any],
    types: Sequence[str],
    shown_rows: Callable[[AskedNodes, Sequence[AnyCountedRow]], Awaitable[list[dict[str, Any]]]],
) -> None:
    """Add the routes that only actions and sources have: what is counted of them, summaries, and their types.

    Args:
        one: `action` or `source`.
        reset: What a node is asked so that it counts from zero.
        shown_rows: What `add_integration_routes` has returned.
    """
    many, by_id = asks.area, f"/{asks.area}/{{id}}/metrics"
    counters = f"The counters of {_A[one]}."

    @area.get(by_id, name=f"get_{one}_metrics", description=counters, errors=MISSING)
    async def get_metrics(id: str, nodes: NodesDep) -> ActionMetrics:
        return metrics_of(await row_of(nodes.own, asks, id), nodes.own.name)

    resets = {"description": f"Reset the counters of {_A[one]}.", "status": 204, "errors": MISSING}

    @area.put(f"{by_id}/reset", name=f"reset_{one}_metrics", **resets)
    async def reset_metrics(id: str, nodes: NodesDep) -> None:
        with answering():
            await nodes.own.ask(reset(id_of(id)))

    summary = {"description": f"A summary of all {many}.", "answers": list[IntegrationSummary]}

    @area.get(f"/{many}_summary", name=f"list_{many}_summary", **summary)
    async def list_summary(nodes: NodesDep) -> list[dict[str, Any]]:
        rows = await shown_rows(nodes, await nodes.own.rows(asks.list()))
        return [{name: row[name] for name in IntegrationSummary.__annotations__ if name in row} for row in rows]

    @area.get(f"/{one}_types", name=f"list_{one}_types", description=f"The types of {many}.")
    async def list_types() -> list[str]:
        return list(types)


_USERS: Final = {"actions": "active_channels", "sources": "active_channels", "rules": "rules"}  # the keys of EMQX
_A: Final = {"connector": "a connector", "action": "an action", "source": "a source"}


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
        tree = await settings_tree(nodes.own, root, hides_sent=nodes.hides_sent)
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


def status_of(row: ConnectorRow | ActionRow | SourceRow, node: str) -> dict[str, Any]:
    """How one is, on each node."""
    one = {"status": row.status, "status_reason": row.reason}
    return {**one, "node_status": [{"node": node, **one}]}


def metrics_of(row: ActionRow | SourceRow, node: str) -> ActionMetrics:
    """What is counted of one, on each node."""
    metrics = metrics_in(row)
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
