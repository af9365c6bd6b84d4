"""Listeners: where clients connect."""

import json
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import Body, Query, Response
from typing_extensions import TypedDict

from heliograph.control.proto_v1.groups import LISTENERS, GroupRemoval, GroupSettings
from heliograph.control.proto_v1.listeners import (
    LISTENERS_LIST,
    LISTENERS_RESTART,
    LISTENERS_START,
    ListenerName,
    ListenerRow,
)
from heliograph.management.asking.nodes import ASK_S, Node
from heliograph.management.asking.settings_trees import merge_settings, settings_tree
from heliograph.management.asking.websockets import WebSocketPlace, websocket_places
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import json_response
from heliograph.management.web.times import rfc3339
from heliograph.rpc.methods import RpcError

KINDS: Final = ("tcp", "ssl", "ws", "wss")
_ACCEPTORS: Final = 1  # one loop accepts; the setting is taken and has no effect
# What a listener has in answers beside its settings.
_OURS: Final = frozenset({"id", "type", "name", "acceptors", "running", "current_connections", "number", "status",
                          "node_status", "address", "certificate_expires_at"})  # fmt: skip
_KNOWN: Final = ("address", "certificate_expires_at")  # what only the node knows
# What EMQX has of a socket that depends on its runtime: it is taken, and has no effect.
_OF_ERLANG: Final = frozenset({"active_n", "buffer", "reuseaddr", "send_timeout_close"})
_BOOLEANS: Final[dict[object, bool]] = {"true": True, "false": False}
_MISSING: Final = {404: ("BAD_LISTENER_ID",)}
_BAD: Final = {400: ("BAD_LISTENER_ID",), **_MISSING}

area = Area("Listeners", "Where clients connect.", scope="listeners")


class ListenerStatus(TypedDict):
    """How a listener is, or the listeners of a kind are."""

    running: bool
    current_connections: int
    max_connections: int | Literal["infinity"]


class ListenerNodeStatus(TypedDict):
    """The same of one node."""

    node: str
    status: ListenerStatus


class ListenerSummary(TypedDict):
    """A listener.

    Attributes:
        address: Where it listens now.
        certificate_expires_at: When the certificate that clients are shown first expires; null without TLS.
        number: Nodes that have it.
    """

    id: str
    type: str
    name: str
    enable: bool
    bind: str | int
    address: str | None
    certificate_expires_at: str | None
    acceptors: int
    number: int
    status: ListenerStatus
    node_status: list[ListenerNodeStatus]


class ListenerKind(TypedDict):
    """The listeners of a kind."""

    type: str
    enable: bool
    ids: list[str]
    status: ListenerStatus
    node_status: list[ListenerNodeStatus]


class ListenerObject(TypedDict):
    """A listener with all of its settings, which have more keys than these."""

    id: str
    type: str
    name: str
    running: bool
    current_connections: int
    address: str | None
    certificate_expires_at: str | None
    acceptors: int
    enable: bool
    bind: str | int


@area.get("/listeners", answers=list[ListenerSummary])
async def list_listeners(
    nodes: NodesDep, type: Annotated[str | None, Query(description="One kind")] = None
) -> Response:
    """All listeners, also disabled ones."""
    found = await _listeners(nodes.own)
    return json_response([_summary(one, nodes.own.name) for one in found if type in (None, one["type"])])


@area.get("/listeners_status", answers=list[ListenerKind])
async def list_listeners_status(nodes: NodesDep) -> Response:
    """The state of the listeners, by kind."""
    found = await _listeners(nodes.own)
    kinds: list[ListenerKind] = []
    for kind in KINDS:
        own = [one for one in found if one["type"] == kind]
        if not own:
            continue
        status: ListenerStatus = {
            "running": any(one["running"] for one in own),
            "current_connections": sum(one["current_connections"] for one in own),
            "max_connections": _most([one["settings"]["max_connections"] for one in own]),
        }
        is_enabled = any(one["settings"]["enable"] for one in own)
        kinds.append(
            {
                "type": kind,
                "enable": is_enabled,
                "ids": [one["id"] for one in own],
                "status": status,
                "node_status": [{"node": nodes.own.name, "status": status}],
            }
        )
    return json_response(kinds)


@area.get("/heliograph/websockets", answers=list[WebSocketPlace])
async def list_websockets(nodes: NodesDep) -> Response:
    """Where a page in a browser can speak MQTT: the listeners of WebSockets that accept connections now."""
    return json_response([asdict(one) for one in await websocket_places(nodes.own, ASK_S)])


@area.post("/listeners", answers=ListenerObject, errors=_BAD)
async def create_listener(nodes: NodesDep, body: Annotated[dict[str, Any], Body()]) -> Response:
    """Make a listener: `type`, `name`, `bind` and other settings."""
    kind, name = body.get("type"), body.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        raise ApiError(400, "BAD_REQUEST", "a listener needs type and name")
    return await _create(nodes.own, f"{kind}:{name}", body)


@area.get("/listeners/{id}", answers=ListenerObject, errors=_MISSING)
async def get_listener(id: str, nodes: NodesDep) -> Response:
    """One listener with all of its settings."""
    return json_response(_whole(await _listener(nodes.own, id)))


@area.post("/listeners/{id}", answers=ListenerObject, errors=_BAD, deprecated=True)
async def create_listener_of_id(id: str, nodes: NodesDep, body: Annotated[dict[str, Any], Body()]) -> Response:
    """Make a listener. Deprecated: use `POST /listeners`."""
    return await _create(nodes.own, id, body)


@area.put("/listeners/{id}", answers=ListenerObject, errors=_BAD)
async def update_listener(id: str, nodes: NodesDep, body: Annotated[dict[str, Any], Body()]) -> Response:
    """Change settings of a listener; settings that are left out stay."""
    kind, _, name = id.partition(":")
    if body.get("id", id) != id or body.get("type", kind) != kind or body.get("name", name) != name:
        raise ApiError(400, "BAD_REQUEST", f"the body is of another listener than {id}")
    await _listener(nodes.own, id)
    await _refusable(merge_settings(nodes.own, _path(id), _settings(body), f"the listener {id} is changed"))
    return json_response(_whole(await _listener(nodes.own, id)))


@area.delete("/listeners/{id}", errors=_BAD)
async def delete_listener(id: str, nodes: NodesDep) -> None:
    """Delete a listener, and end its connections."""
    await _listener(nodes.own, id)
    await _refusable(nodes.own.ask(LISTENERS.delete(GroupRemoval(id))))


@area.post("/listeners/{id}/start", response_class=Response, errors=_BAD)
async def start_listener(id: str, nodes: NodesDep) -> Response:
    """Start a listener, now and at later starts of the node."""
    if not (await _listener(nodes.own, id))["settings"]["enable"]:
        await _refusable(merge_settings(nodes.own, _path(id), {"enable": True}, f"the listener {id} is started"))
    else:
        await _refusable(nodes.own.ask(LISTENERS_START(ListenerName(id))))
    return Response(status_code=200)


@area.post("/listeners/{id}/stop", response_class=Response, errors=_BAD)
async def stop_listener(id: str, nodes: NodesDep) -> Response:
    """Stop a listener and end its connections; it stays stopped at later starts of the node."""
    if (await _listener(nodes.own, id))["settings"]["enable"]:
        await _refusable(merge_settings(nodes.own, _path(id), {"enable": False}, f"the listener {id} is stopped"))
    return Response(status_code=200)


@area.post("/listeners/{id}/restart", response_class=Response, errors=_BAD)
async def restart_listener(id: str, nodes: NodesDep) -> Response:
    """Restart a listener; its connections end."""
    await _listener(nodes.own, id)
    await _refusable(nodes.own.ask(LISTENERS_RESTART(ListenerName(id))))
    return Response(status_code=200)


async def _create(node: Node, name: str, body: dict[str, Any]) -> Response:
    kind = name.partition(":")[0]
    if kind not in KINDS:
        raise ApiError(400, "BAD_LISTENER_ID", f"found type {kind[:100]!r}; types are {', '.join(KINDS)}")
    if "bind" not in body:
        raise ApiError(400, "BAD_REQUEST", "a listener needs bind, as 1884 or 127.0.0.1:1884")
    if any(one["id"] == name for one in await _listeners(node)):
        raise ApiError(400, "BAD_LISTENER_ID", f"there is a listener {name} already")
    text = json.dumps(_settings(body))
    await _refusable(node.ask(LISTENERS.put(GroupSettings(name, text, is_new=True))))
    return json_response(_whole(await _listener(node, name)))


async def _listeners(node: Node) -> list[dict[str, Any]]:
    """All of them: `id`, `type`, `name`, `settings`, `running`, `current_connections`, and what is `_KNOWN`."""
    tree = await settings_tree(node, "listeners")
    running = {row.id: row for row in await node.rows(LISTENERS_LIST())}
    found = []
    for kind in KINDS:
        named = tree.get(kind)
        for name, settings in named.items() if isinstance(named, dict) else ():
            row = running.get(f"{kind}:{name}")
            found.append(
                {
                    "id": f"{kind}:{name}",
                    "type": kind,
                    "name": name,
                    "settings": settings,
                    "running": row is not None and row.is_listening,
                    "current_connections": 0 if row is None else row.connections,
                    "address": row.address if row is not None and row.is_listening else None,
                    "certificate_expires_at": None if row is None else _expiry(row),
                }
            )
    return found


async def _listener(node: Node, name: str) -> dict[str, Any]:
    found = next((one for one in await _listeners(node) if one["id"] == name), None)
    if found is None:
        raise ApiError(404, "BAD_LISTENER_ID", f"there is no listener {name[:200]!r}")
    return found


def _summary(one: dict[str, Any], node: str) -> ListenerSummary:
    settings = one["settings"]
    status: ListenerStatus = {
        "running": one["running"],
        "current_connections": one["current_connections"],
        "max_connections": settings["max_connections"],
    }
    return {
        "id": one["id"],
        "type": one["type"],
        "name": one["name"],
        "enable": settings["enable"],
        "bind": settings["bind"],
        "address": one["address"],
        "certificate_expires_at": one["certificate_expires_at"],
        "acceptors": _ACCEPTORS,
        "number": 1,
        "status": status,
        "node_status": [{"node": node, "status": status}],
    }


def _whole(one: dict[str, Any]) -> dict[str, Any]:
    names = {name: one[name] for name in ("id", "type", "name", "running", "current_connections", *_KNOWN)}
    settings = dict(one["settings"])
    settings["enable_authn"] = _BOOLEANS.get(settings.get("enable_authn"), settings.get("enable_authn"))
    return {**names, "acceptors": _ACCEPTORS, **settings}


def _expiry(row: ListenerRow) -> str | None:
    """When the certificate that clients are shown first expires; None without TLS, or if that cannot be read."""
    seconds = row.counts.get("certificate_expires_at", 0)
    return rfc3339(seconds * 1_000_000) if seconds else None


def _settings(body: dict[str, Any]) -> dict[str, Any]:
    """The settings of a body: without what answers have besides them."""
    settings = {name: value for name, value in body.items() if name not in _OURS}
    if isinstance(settings.get("enable_authn"), bool):
        settings["enable_authn"] = "true" if settings["enable_authn"] else "false"
    if isinstance(options := settings.get("tcp_options"), dict):
        settings["tcp_options"] = {name: value for name, value in options.items() if name not in _OF_ERLANG}
    return settings


def _path(name: str) -> str:
    kind, _, rest = name.partition(":")
    return f"listeners.{kind}.{orjson.dumps(rest).decode()}"


def _most(limits: list[Any]) -> Any:
    return "infinity" if any(not isinstance(limit, int) for limit in limits) else sum(limits)


async def _refusable(change: Any) -> None:
    """What a node says against a change, as an error of the request."""
    try:
        await change
    except RpcError as error:
        raise ApiError(400, "BAD_REQUEST", error.message) from None
