"""The rules of the built-in database: of users, of clients, of all."""

from typing import Annotated, Any, Final

from fastapi import Body as Json
from fastapi import Path, Query, Response
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
from heliograph.management.web.answering import answering, refused_as
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body
from heliograph.management.web.paging import PageDep, json_response, page_response, take_page
from heliograph.management.web.rows import pages_of, typed_dict

Rule = dict[str, Any]

SOURCE: Final = "built_in_database"
_RULES: Final = f"/authorization/sources/{SOURCE}/rules"

area = Area("Authorization rules", "Rules that the node keeps itself.", scope="authorization")


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


class RulesOfAll(TypedDict):
    """The rules of all clients."""

    rules: list[BuiltInRule]


def _add_routes(many: str, kind: str, owner: str, owners: str) -> None:
    """Add the routes of rules that belong to someone.

    Args:
        many: The last part of the path.
        kind: What an owner is called in rules, in bodies and in paths.
        owner: One of them in words.
        owners: Several of them in words.
    """
    reads: dict[str, Any] = {"scope": "authorization:read", "errors": MISSING}
    writes: dict[str, Any] = {"scope": "authorization:write", "status": 204, "errors": MISSING}
    of_many, of_one = f"{_RULES}/{many}", f"{_RULES}/{many}/{{{kind}}}"
    one, words = many.removesuffix("s"), f"The rules of {owner}."
    answers = typed_dict(f"RulesOf{one.capitalize()}", words, {kind: str, "rules": list[BuiltInRule]})

    @area.get(
        of_many,
        name=f"list_rules_of_{many}",
        description=f"{owners.capitalize()} that have rules.",
        answers=pages_of(answers),
        **reads,
    )
    async def list_all(
        nodes: NodesDep,
        page: PageDep,
        like: Annotated[str, Query(alias=f"like_{kind}", description="A part of it")] = "",
    ) -> Response:
        node = await _asked(nodes.own)
        rows, has_next = await take_page(node.slices(ACL_LIST(AclWanted(kind, like))), page)
        return page_response([_entry(row) for row in rows], page, None, has_next)

    @area.post(
        of_many,
        name=f"create_rules_of_{many}",
        description=f"Add rules for {owners} that have none.",
        **writes | {"errors": {**MISSING, 409: ("ALREADY_EXISTS",)}},
    )
    async def create(nodes: NodesDep, body: Annotated[list[RulesBody], Json()]) -> None:
        node = await _asked(nodes.own)
        added = []
        for entry in body:
            if not (name := getattr(entry, kind)):
                raise ApiError(400, "BAD_REQUEST", f"each entry needs {kind} and rules")
            added.append(AclRules(kind, name, entry.rules))
        await _changed(node, AclChange(added, "new"))

    @area.get(of_one, name=f"get_rules_of_{one}", description=words, answers=answers, **reads)
    async def get(name: Annotated[str, Path(alias=kind)], nodes: NodesDep) -> dict[str, object]:
        node = await _asked(nodes.own)
        with answering():
            return _entry(await node.ask(ACL_SHOW(AclOwner(kind, name))))

    @area.put(of_one, name=f"put_rules_of_{one}", description=f"Replace the rules of {owner}.", **writes)
    async def put(name: Annotated[str, Path(alias=kind)], body: RulesBody, nodes: NodesDep) -> None:
        node = await _asked(nodes.own)
        if getattr(body, kind) not in (None, name):
            raise ApiError(400, "BAD_REQUEST", f"the body is of {getattr(body, kind)!r}, not of {name!r}")
        await _changed(node, AclChange([AclRules(kind, name, body.rules)]))

    @area.delete(of_one, name=f"delete_rules_of_{one}", description=f"Delete the rules of {owner}.", **writes)
    async def delete(name: Annotated[str, Path(alias=kind)], nodes: NodesDep) -> None:
        node = await _asked(nodes.own)
        with answering():
            await node.ask(ACL_DELETE(AclRemoval(kind, name)))


_add_routes("users", "username", "a user name", "user names")
_add_routes("clients", "clientid", "a client id", "client ids")


@area.get(f"{_RULES}/all", answers=RulesOfAll, errors=MISSING)
async def get_rules_of_all(nodes: NodesDep) -> Response:
    """The rules of all clients."""
    node = await _asked(nodes.own)
    rows = await node.rows(ACL_LIST(AclWanted("all")))
    return json_response({"rules": _filled(rows[0].rules) if rows else []})


@area.post(f"{_RULES}/all", status=204, errors=MISSING)
async def put_rules_of_all(body: RulesBody, nodes: NodesDep) -> None:
    """Replace the rules for all clients."""
    await _changed(await _asked(nodes.own), AclChange([AclRules("all", "", body.rules)]))


@area.delete(f"{_RULES}/all", errors=MISSING)
async def delete_rules_of_all(nodes: NodesDep) -> None:
    """Delete the rules for all clients."""
    await (await _asked(nodes.own)).ask(ACL_CLEAR(AclClearing("all")))


@area.delete(_RULES, errors=MISSING)
async def delete_all_rules(nodes: NodesDep) -> None:
    """Delete all rules; the source must be disabled."""
    node = nodes.own
    if (await _source(node)).enable:
        raise ApiError(400, "BAD_REQUEST", f"the source {SOURCE} must be disabled first")
    await node.ask(ACL_CLEAR(AclClearing()))


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
    with refused_as("BAD_REQUEST"), answering(already_exists=(409, "ALREADY_EXISTS")):
        await node.ask(ACL_CHANGE(change))


def _entry(row: AclRules) -> dict[str, object]:
    return {row.kind: row.name, "rules": _filled(row.rules)}


def _filled(rules: list[Rule]) -> list[Rule]:
    """Rules as the API shows them, with what they leave out."""
    return [{"qos": [0, 1, 2], "retain": "all", **rule} for rule in rules]
