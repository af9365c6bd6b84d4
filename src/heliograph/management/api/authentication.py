"""Authenticators: those of all listeners, and those of one listener."""

import json
from typing import Annotated, Any, Final, NotRequired

import orjson
from fastapi import Body, Depends, Request, Response
from typing_extensions import TypedDict

from heliograph.control.proto_v1.authn import (
    AUTHN_ADD,
    AUTHN_DELETE,
    AUTHN_LIST,
    AUTHN_MOVE,
    AUTHN_ORDER,
    AUTHN_SHOW,
    AUTHN_STATUS,
    AUTHN_UPDATE,
    AuthnMove,
    AuthnName,
    AuthnOrder,
    AuthnSettings,
)
from heliograph.management.asking.nodes import Node
from heliograph.management.asking.states import GLOBAL, NodeMetrics, authenticator_state
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import json_response

Settings = dict[str, Any]

_LOCAL: Final = frozenset({"built_in_database"})

area = Area("Authentication", "Who may connect.", scope="authentication")


class AuthenticatorObject(TypedDict):
    """An authenticator with its settings, which have more keys than these; stars for secrets."""

    id: str
    enable: bool
    mechanism: str
    backend: NotRequired[str]
    user_id_type: NotRequired[str]


class LinkNodeStatus(TypedDict):
    """How an authenticator or a source is on one node."""

    node: str
    status: str


class LinkStatus(TypedDict):
    """How an authenticator or a source is, and what it has counted.

    Attributes:
        metrics: Counts, and rates per second.
    """

    status: str
    node_status: list[LinkNodeStatus]
    metrics: dict[str, float]
    node_metrics: list[NodeMetrics]
    resource_metrics: dict[str, float]
    node_resource_metrics: list[NodeMetrics]
    node_error: list[dict[str, str]]


def _chain(request: Request) -> str:
    """The listener that the path names; empty for the authenticators of all listeners."""
    return str(request.path_params.get("listener_id", ""))


ChainDep = Annotated[str, Depends(_chain)]


async def list_authenticators(nodes: NodesDep, chain: ChainDep) -> Response:
    """All authenticators in the order in which they are asked."""
    rows = [row for row in await nodes.own.rows(AUTHN_LIST()) if row.chain == (chain or GLOBAL)]
    return json_response([await _settings(nodes.own, chain, row.id) for row in rows])


async def create_authenticator(nodes: NodesDep, chain: ChainDep, body: Annotated[Settings, Body()]) -> Response:
    """Add an authenticator at the end of the chain."""
    name = id_of(body)
    rows = await nodes.own.rows(AUTHN_LIST())
    if any(row.id == name and row.chain == (chain or GLOBAL) for row in rows):
        raise ApiError(409, "ALREADY_EXISTS", f"there is an authenticator {name} already")
    await nodes.own.ask(AUTHN_ADD(AuthnSettings(_text(body), chain)))
    return json_response(await _settings(nodes.own, chain, name))


async def get_authenticator(id: str, nodes: NodesDep, chain: ChainDep) -> Response:
    """One authenticator, with stars for secrets."""
    return json_response(await _settings(nodes.own, chain, id))


async def update_authenticator(id: str, nodes: NodesDep, chain: ChainDep, body: Annotated[Settings, Body()]) -> None:
    """Replace the settings of an authenticator; its mechanism and backend stay."""
    await _settings(nodes.own, chain, id)
    if id_of(body) != id:
        raise ApiError(400, "BAD_REQUEST", f"the body is of {id_of(body) or 'no authenticator'}, not of {id}")
    await nodes.own.ask(AUTHN_UPDATE(AuthnSettings(_text(body), chain, id)))


async def delete_authenticator(id: str, nodes: NodesDep, chain: ChainDep) -> None:
    """Delete an authenticator and its users."""
    await _settings(nodes.own, chain, id)
    await nodes.own.ask(AUTHN_DELETE(AuthnName(id, chain)))


async def get_authenticator_status(id: str, nodes: NodesDep, chain: ChainDep) -> Response:
    """How an authenticator is, and what it has counted."""
    with answering():
        row = await nodes.own.ask(AUTHN_STATUS(AuthnName(id, chain)))
    return json_response(status_of(nodes.own.name, *authenticator_state(row)))


async def move_authenticator(id: str, position: str, nodes: NodesDep, chain: ChainDep) -> None:
    """Move an authenticator in the chain: `front`, `rear`, `before:ID` or `after:ID`."""
    await _settings(nodes.own, chain, id)
    await nodes.own.ask(AUTHN_MOVE(AuthnMove(id, position, chain)))


async def order_authenticators(nodes: NodesDep, chain: ChainDep, body: Annotated[list[Settings], Body()]) -> None:
    """Set the order of all authenticators."""
    ids = tuple(str(one.get("id", "")) for one in body)
    with answering(not_found=(400, "BAD_REQUEST")):
        await nodes.own.ask(AUTHN_ORDER(AuthnOrder(ids, chain)))


def _add_routes(prefix: str, *, is_hidden: bool) -> None:
    shared: dict[str, Any] = {"include_in_schema": not is_hidden, "deprecated": is_hidden}
    about_one = {"errors": MISSING, **shared}
    one, changed = f"{prefix}/{{id}}", {"status": 204, **about_one}
    area.get(prefix, answers=list[AuthenticatorObject], **shared)(list_authenticators)
    new = {"errors": {409: ("ALREADY_EXISTS",)}, **shared}
    area.post(prefix, answers=AuthenticatorObject, **new)(create_authenticator)
    area.put(f"{prefix}/order", **changed)(order_authenticators)
    area.get(one, answers=AuthenticatorObject, **about_one)(get_authenticator)
    area.put(one, **changed)(update_authenticator)
    area.delete(one, **about_one)(delete_authenticator)
    area.get(f"{one}/status", answers=LinkStatus, **about_one)(get_authenticator_status)
    area.put(f"{one}/position/{{position}}", **changed)(move_authenticator)


_add_routes("/authentication", is_hidden=False)
_add_routes("/listeners/{listener_id}/authentication", is_hidden=True)


def id_of(settings: Settings) -> str:
    """Mechanism and backend, as `password_based:mysql`."""
    return ":".join(str(settings[tag]) for tag in ("mechanism", "backend") if tag in settings)


def status_of(node: str, status: str, metrics: dict[str, float]) -> LinkStatus:
    """How an authenticator or a source is, as the API has it."""
    return {
        "status": status,
        "node_status": [{"node": node, "status": status}],
        "metrics": metrics,
        "node_metrics": [{"node": node, "metrics": metrics}],
        "resource_metrics": {},
        "node_resource_metrics": [],
        "node_error": [],
    }


def _text(body: Settings) -> str:
    return json.dumps({name: value for name, value in body.items() if name != "id"})


async def _settings(node: Node, chain: str, name: str) -> Settings:
    with answering():
        shown = await node.ask(AUTHN_SHOW(AuthnName(name, chain)))
    settings: Settings = orjson.loads(shown.text)
    return {**settings, "id": name, "enable": settings.get("enable", True)}
