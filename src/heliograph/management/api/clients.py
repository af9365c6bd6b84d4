"""Clients: who is connected or has a session, page by page or one by one, and what is done with them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import Query, Response
from pydantic import ConfigDict, Field

from heliograph.control.proto_v1.clients import (
    CLIENTS_COUNT,
    CLIENTS_DECISIONS,
    CLIENTS_FORGET_DECISIONS,
    CLIENTS_KEEPALIVE,
    CLIENTS_KICK,
    CLIENTS_KICK_ALL,
    CLIENTS_LIST,
    CLIENTS_ROW,
    ClientId,
    ClientIds,
    ClientRow,
    ClientsFilter,
    ClientsPage,
    DecisionRow,
    NewKeepalive,
)
from heliograph.management.api.client_filters import FilterDep
from heliograph.management.api.client_objects import KEYS, SCHEMA, client_object
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.cursors import about_cursor, cursor_of, read_cursor
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Row, Whole
from heliograph.management.web.paging import (
    LIMIT_MAX,
    CursorMeta,
    PageDep,
    PageMeta,
    json_response,
    page_response,
    take_rows,
    take_whole_page,
)
from heliograph.management.web.rows import ApiRow
from heliograph.rpc.methods import RpcError

area = Area("Clients", "Clients and their sessions, connected or away.", scope="clients")

NOT_FOUND: Final = {404: ("CLIENTID_NOT_FOUND",)}
BAD_FILTER: Final = {400: ("INVALID_PARAMETER",)}
_CURSOR: Final = "1"


class Keepalive(Body):
    """A keepalive."""

    interval: Annotated[Whole, Field(ge=0, le=65_535)]


class ClientObject(Row):
    """A client."""

    model_config = ConfigDict(extra="allow", json_schema_extra=lambda schema: schema.update(SCHEMA))

    node: str


class ClientPage(Row):
    """A page of clients."""

    data: list[ClientObject]
    meta: PageMeta


class ClientCursorPage(Row):
    """A page of clients, with the cursor of the next one."""

    data: list[ClientObject]
    meta: CursorMeta


FieldsParameter = Annotated[str, Query(description="`all`, or keys of clients with commas between them")]


@asynccontextmanager
async def about_client(clientid: str) -> AsyncIterator[None]:
    """Answers 404 where a node says that a client has no session, or no connection where one is needed."""
    try:
        yield
    except RpcError as error:
        if error.code in ("not_found", "not_connected"):
            text = "Client ID not found" if error.code == "not_found" else "the client is not connected"
            raise ApiError(404, "CLIENTID_NOT_FOUND", f"{text}: {clientid[:200]}") from error
        if error.code == "session_unreadable":
            raise ApiError(503, "SERVICE_UNAVAILABLE", error.message) from error
        raise


_DECISION: Final = ApiRow("CachedDecision", DecisionRow)


@area.get("/clients", errors=BAD_FILTER, answers=ClientPage)
async def list_clients(
    nodes: NodesDep,
    page: PageDep,
    wanted: FilterDep,
    fields: FieldsParameter = "all",
    node: Annotated[str | None, Query(description="Those of this node")] = None,
) -> Response:
    """A page of the clients that match, the newest first."""
    names = field_names(fields)
    (asked,) = nodes.chosen(node)
    slices = asked.slices(CLIENTS_LIST(ClientsPage(wanted, skip=page.skip, limit=page.limit + 1)))
    rows, has_next = await take_whole_page(slices, page.limit)
    count = None if _is_fuzzy(wanted) else await _count(asked, wanted)
    return page_response(shown_clients(rows, asked, names), page, count, has_next)


@area.get("/clients_v2", errors=BAD_FILTER, answers=ClientCursorPage)
async def list_clients_by_cursor(
    nodes: NodesDep,
    wanted: FilterDep,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Rows of a page")] = 100,
    cursor: Annotated[str, Query(description="`meta.cursor` of the page before")] = "",
    fields: FieldsParameter = "all",
) -> Response:
    """The clients that match, page by page; a client that is there throughout appears exactly once."""
    return await cursor_page(nodes.own, wanted, limit, cursor, fields)


async def cursor_page(node: Node, wanted: ClientsFilter, limit: int, cursor: str, fields: str) -> Response:
    """A page of clients, with the cursor of the next one.

    Raises:
        ApiError: 400, the cursor or a field does not exist.
    """
    names = field_names(fields)
    (before,) = read_cursor(cursor, _CURSOR, 1)
    slices = node.slices(CLIENTS_LIST(ClientsPage(wanted, before=before, limit=limit + 1)))
    with about_cursor(cursor):
        rows, has_next = await take_rows(slices, limit)
    meta: CursorMeta = {"limit": limit, "hasnext": has_next}
    if has_next:
        meta["cursor"] = cursor_of(_CURSOR, rows[-1].at)
    if not _is_fuzzy(wanted):
        meta["count"] = await _count(node, wanted)
    return json_response({"data": shown_clients(rows, node, names), "meta": meta})


@area.get("/clients/{clientid}", errors=NOT_FOUND, answers=ClientObject)
async def get_client(clientid: str, nodes: NodesDep) -> Response:
    """One client."""
    return await _client(nodes.own, clientid)


@area.delete("/clients/{clientid}", errors=NOT_FOUND)
async def delete_client(clientid: str, nodes: NodesDep) -> None:
    """End the connection and the session of a client."""
    async with about_client(clientid):
        await nodes.own.ask(CLIENTS_KICK(ClientId(clientid)))


@area.post("/clients/kickout/bulk", status=204)
async def kickout_clients(clientids: list[str], nodes: NodesDep) -> None:
    """End the connections and sessions of clients; ids that no client has are ignored."""
    await nodes.own.rows(CLIENTS_KICK_ALL(ClientIds(clientids)))


@area.put("/clients/{clientid}/keepalive", errors=NOT_FOUND, answers=ClientObject)
async def put_keepalive(clientid: str, body: Keepalive, nodes: NodesDep) -> Response:
    """Give a connected client another keepalive, until its connection ends."""
    async with about_client(clientid):
        await nodes.own.ask(CLIENTS_KEEPALIVE(NewKeepalive(clientid, body.interval)))
    return await _client(nodes.own, clientid)


@area.get("/clients/{clientid}/authorization/cache", errors=NOT_FOUND, answers=_DECISION.rows)
async def get_authorization_cache(clientid: str, nodes: NodesDep) -> list[dict[str, Any]]:
    """The decisions of authorization that are cached for a client."""
    async with about_client(clientid):
        rows = await nodes.own.rows(CLIENTS_DECISIONS(ClientId(clientid)))
    return [_DECISION(row) for row in rows]


@area.delete("/clients/{clientid}/authorization/cache", errors=NOT_FOUND)
async def delete_authorization_cache(clientid: str, nodes: NodesDep) -> None:
    """Forget the decisions of authorization that are cached for a client."""
    async with about_client(clientid):
        await nodes.own.ask(CLIENTS_FORGET_DECISIONS(ClientId(clientid)))


@area.get("/sessions_count", response_class=Response)
async def get_sessions_count(
    nodes: NodesDep, since: Annotated[int, Query(ge=0, description="Not used: ended sessions are not kept")] = 0
) -> Response:
    """How many sessions there are."""
    count = sum([await _count(node, ClientsFilter()) for node in nodes.all()])
    return Response(str(count), media_type="text/plain")


async def _client(node: Node, clientid: str) -> Response:
    async with about_client(clientid):
        return json_response(client_object(await node.ask(CLIENTS_ROW(ClientId(clientid))), node.name))


async def _count(node: Node, wanted: ClientsFilter) -> int:
    (row,) = await node.rows(CLIENTS_COUNT(wanted))
    return row.count


def _is_fuzzy(wanted: ClientsFilter) -> bool:
    return bool(wanted.clientid_like or wanted.username_like)


def shown_clients(rows: list[ClientRow], node: Node, names: list[str] | None) -> list[Any]:
    """Clients as objects, with these keys or all."""
    if names is None:
        return [client_object(row, node.name) for row in rows]
    return [client_object(row, node.name, tuple(names)) for row in rows]


def field_names(text: str) -> list[str] | None:
    """The keys of clients that are wanted; None for all.

    Raises:
        ApiError: 400, there is no such key.
    """
    if text == "all":
        return None
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in KEYS]:
        raise ApiError(
            400, "BAD_REQUEST", f"fields: there is no {unknown[0][:100]!r}; valid are all, {', '.join(sorted(KEYS))}"
        )
    return names
