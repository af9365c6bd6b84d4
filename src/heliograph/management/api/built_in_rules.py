"""The rules of the built-in database: of users, of clients, of all."""

from typing import Annotated, Any, Final

from fastapi import Body as Json
from fastapi import Query, Response
from pydantic import Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.acl import (
    ACL_CHANGE,
    ACL_CLEAR,
    ACL_DELETE,
    ACL_LIST,
    ACL_SHOW,
    AclChange,
    AclClearing,
    AclOwner,
    AclRemoval,
    AclRules,
    AclWanted,
)
from heliograph.control.proto_v1.authorization import AUTHZ_SOURCES, SourceStatus
from heliograph.management.asking.nodes import Node
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body
from heliograph.management.web.paging import PageDep, PageOf, json_response, page_response, take_page
from heliograph.rpc.methods import RpcError

Rule = dict[str, Any]

SOURCE: Final = "built_in_database"
_RULES: Final = f"/authorization/sources/{SOURCE}/rules"
_KINDS: Final = {"users": "username", "clients": "clientid"}
_BAD: Final = {400: ("BAD_REQUEST",), 404: ("NOT_FOUND",)}

area = Area("Authorization rules", "Rules that the node keeps itself.")


class RulesBody(Body):
    """Rules, in the order in which they are tried."""

    username: str | None = None
    clientid: str | None = None
    rules: list[Rule] = Field(
        description="`permission`, `action`, `topic`, and if they are to be looked at `qos` and `retain`",
        examples=[[{"permission": "allow", "action": "publish", "topic": "up/${clientid}/#"}]],
    )


class BuiltInRule(TypedDict):
    """A rule.

    Attributes:
        permission: `allow` or `deny`.
        action: `publish`, `subscribe` or `all`.
        topic: A topic filter, with placeholders.
        retain: `true`, `false` or `all`.
    """

    permission: str
    action: str
    topic: str
    qos: list[int]
    retain: str | bool


class RulesOfUser(TypedDict):
    """The rules of a user name."""

    username: str
    rules: list[BuiltInRule]


class RulesOfClient(TypedDict):
    """The rules of a client id."""

    clientid: str
    rules: list[BuiltInRule]


class RulesOfAll(TypedDict):
    """The rules of all clients."""

    rules: list[BuiltInRule]


async def _list(kind: str, like: str, nodes: NodesDep, page: PageDep) -> Response:
    node = await _asked(nodes.own)
    slices = node.slices(ACL_LIST(AclWanted(kind, like)))
    rows, has_next = await take_page(slices, page)
    return page_response([_entry(row) for row in rows], page, None, has_next)


async def _create(kind: str, bodies: list[RulesBody], nodes: NodesDep) -> Response:
    node = await _asked(nodes.own)
    owners = []
    for body in bodies:
        name = getattr(body, kind)
        if not name:
            raise ApiError(400, "BAD_REQUEST", f"each entry needs {kind} and rules")
        owners.append(AclRules(kind, name, body.rules))
    await _changed(node, AclChange(owners, "new"))
    return Response(status_code=204)


async def _get(kind: str, name: str, nodes: NodesDep) -> Response:
    node = await _asked(nodes.own)
    with answering():
        return json_response(_entry(await node.ask(ACL_SHOW(AclOwner(kind, name)))))


async def _put(kind: str, name: str, body: RulesBody, nodes: NodesDep) -> Response:
    node = await _asked(nodes.own)
    if getattr(body, kind) not in (None, name):
        raise ApiError(400, "BAD_REQUEST", f"the body is of {getattr(body, kind)!r}, not of {name!r}")
    await _changed(node, AclChange([AclRules(kind, name, body.rules)]))
    return Response(status_code=204)


async def _delete(kind: str, name: str, nodes: NodesDep) -> Response:
    node = await _asked(nodes.own)
    with answering():
        await node.ask(ACL_DELETE(AclRemoval(kind, name)))
    return Response(status_code=204)


@area.get(f"{_RULES}/users", scope="authorization:read", answers=PageOf[RulesOfUser], errors=_BAD)
async def list_rules_of_users(
    nodes: NodesDep, page: PageDep, like_username: Annotated[str, Query(description="A part of the name")] = ""
) -> Response:
    """User names that have rules."""
    return await _list("username", like_username, nodes, page)


@area.get(f"{_RULES}/clients", scope="authorization:read", answers=PageOf[RulesOfClient], errors=_BAD)
async def list_rules_of_clients(
    nodes: NodesDep, page: PageDep, like_clientid: Annotated[str, Query(description="A part of the id")] = ""
) -> Response:
    """Client ids that have rules."""
    return await _list("clientid", like_clientid, nodes, page)


@area.post(
    f"{_RULES}/users",
    scope="authorization:write",
    status=204,
    response_class=Response,
    errors={**_BAD, 409: ("ALREADY_EXISTS",)},
)
async def create_rules_of_users(nodes: NodesDep, body: Annotated[list[RulesBody], Json()]) -> Response:
    """Add rules for user names that have none."""
    return await _create("username", body, nodes)


@area.post(
    f"{_RULES}/clients",
    scope="authorization:write",
    status=204,
    response_class=Response,
    errors={**_BAD, 409: ("ALREADY_EXISTS",)},
)
async def create_rules_of_clients(nodes: NodesDep, body: Annotated[list[RulesBody], Json()]) -> Response:
    """Add rules for client ids that have none."""
    return await _create("clientid", body, nodes)


@area.get(f"{_RULES}/users/{{username}}", scope="authorization:read", answers=RulesOfUser, errors=_BAD)
async def get_rules_of_user(username: str, nodes: NodesDep) -> Response:
    """The rules of a user name."""
    return await _get("username", username, nodes)


@area.get(f"{_RULES}/clients/{{clientid}}", scope="authorization:read", answers=RulesOfClient, errors=_BAD)
async def get_rules_of_client(clientid: str, nodes: NodesDep) -> Response:
    """The rules of a client id."""
    return await _get("clientid", clientid, nodes)


@area.put(f"{_RULES}/users/{{username}}", scope="authorization:write", status=204, response_class=Response, errors=_BAD)
async def put_rules_of_user(username: str, body: RulesBody, nodes: NodesDep) -> Response:
    """Replace the rules of a user name."""
    return await _put("username", username, body, nodes)


@area.put(
    f"{_RULES}/clients/{{clientid}}", scope="authorization:write", status=204, response_class=Response, errors=_BAD
)
async def put_rules_of_client(clientid: str, body: RulesBody, nodes: NodesDep) -> Response:
    """Replace the rules of a client id."""
    return await _put("clientid", clientid, body, nodes)


@area.delete(f"{_RULES}/users/{{username}}", scope="authorization:write", response_class=Response, errors=_BAD)
async def delete_rules_of_user(username: str, nodes: NodesDep) -> Response:
    """Delete the rules of a user name."""
    return await _delete("username", username, nodes)


@area.delete(f"{_RULES}/clients/{{clientid}}", scope="authorization:write", response_class=Response, errors=_BAD)
async def delete_rules_of_client(clientid: str, nodes: NodesDep) -> Response:
    """Delete the rules of a client id."""
    return await _delete("clientid", clientid, nodes)


@area.get(f"{_RULES}/all", scope="authorization:read", answers=RulesOfAll, errors=_BAD)
async def get_rules_of_all(nodes: NodesDep) -> Response:
    """The rules of all clients."""
    node = await _asked(nodes.own)
    rows = await node.rows(ACL_LIST(AclWanted("all")))
    return json_response({"rules": _filled(rows[0].rules) if rows else []})


@area.post(f"{_RULES}/all", scope="authorization:write", status=204, response_class=Response, errors=_BAD)
async def put_rules_of_all(body: RulesBody, nodes: NodesDep) -> Response:
    """Replace the rules for all clients."""
    await _changed(await _asked(nodes.own), AclChange([AclRules("all", "", body.rules)]))
    return Response(status_code=204)


@area.delete(f"{_RULES}/all", scope="authorization:write", response_class=Response, errors=_BAD)
async def delete_rules_of_all(nodes: NodesDep) -> Response:
    """Delete the rules for all clients."""
    await (await _asked(nodes.own)).ask(ACL_CLEAR(AclClearing("all")))
    return Response(status_code=204)


@area.delete(_RULES, scope="authorization:write", response_class=Response, errors=_BAD)
async def delete_all_rules(nodes: NodesDep) -> Response:
    """Delete all rules; the source must be disabled."""
    node = nodes.own
    if (await _source(node)).enable:
        raise ApiError(400, "BAD_REQUEST", f"the source {SOURCE} must be disabled first")
    await node.ask(ACL_CLEAR(AclClearing()))
    return Response(status_code=204)


async def _source(node: Node) -> SourceStatus:
    found = next((one for one in await node.rows(AUTHZ_SOURCES()) if one.type == SOURCE), None)
    if found is None:
        raise ApiError(404, "NOT_FOUND", f"there is no source {SOURCE}")
    return found


async def _asked(node: Node) -> Node:
    """The node, which has the source.

    Raises:
        ApiError: 404, it has not.
    """
    await _source(node)
    return node


async def _changed(node: Node, change: AclChange) -> None:
    try:
        with answering(already_exists=(409, "ALREADY_EXISTS")):
            await node.ask(ACL_CHANGE(change))
    except RpcError as error:
        raise ApiError(400, "BAD_REQUEST", error.message) from None


def _entry(row: AclRules) -> dict[str, object]:
    return {row.kind: row.name, "rules": _filled(row.rules)}


def _filled(rules: list[Rule]) -> list[Rule]:
    """Rules as the API shows them, with what they leave out."""
    return [{"qos": [0, 1, 2], "retain": "all", **rule} for rule in rules]
