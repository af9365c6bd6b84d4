"""Lists of clients that EMQX has not: those that have most of something, and the disconnects of one."""

from typing import Annotated, Any, Final, Literal

from fastapi import Query, Response

from heliograph.control.proto_v1.clients import (
    CLIENTS_DISCONNECTS,
    CLIENTS_REFUSALS,
    CLIENTS_TOP,
    ClientId,
    ClientRefusals,
    ClientsFilter,
    DisconnectRow,
    DisconnectsWanted,
    TopClients,
)
from heliograph.management.api.client_filters import WiderFilterDep
from heliograph.management.api.clients import BAD_FILTER, ClientCursorPage, FieldsParameter, cursor_page, field_names
from heliograph.management.api.clients import shown_clients as shown
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.cursors import about_cursor, cursor_of, read_cursor
from heliograph.management.web.paging import CursorMeta, json_response, take_rows
from heliograph.management.web.rows import ApiRow

area = Area("Lists of clients", "Clients by queued or dropped messages, and why they disconnected.", scope="clients")

Sort = Literal["backlog", "backlog_bytes", "behind", "drops", "inflight", "subscriptions", "unsent_bytes"]

_LIMIT_MAX: Final = 1_000
_DISCONNECTS: Final = "disconnects"
_BAD_CURSOR: Final = {400: ("INVALID_PARAMETER",)}


_DISCONNECT: Final = ApiRow("ListedDisconnect", DisconnectRow)
_REFUSALS: Final = ApiRow("ClientRefusalsObject", ClientRefusals)


@area.get("/heliograph/clients", errors=BAD_FILTER, answers=ClientCursorPage)
async def list_clients_by_rank(
    nodes: NodesDep,
    wanted: WiderFilterDep,
    sort: Annotated[Sort | None, Query(description="What they have most of")] = None,
    limit: Annotated[int, Query(ge=1, le=_LIMIT_MAX, description="Rows of a page")] = 100,
    cursor: Annotated[str, Query(description="`meta.cursor` of the page before, with the same `sort`")] = "",
    fields: FieldsParameter = "all",
) -> Response:
    """The clients that match: page after page, or with `sort` those that have most of something, the most first.

    With `sort` clients that have none of it are left out, as are sessions that are on the disk only unless it is
    `behind`. A client that gets more or less of it between two pages may come twice, or not at all.
    """
    node = nodes.own
    if sort is None:
        return await cursor_page(node, wanted, limit, cursor, fields)
    return await _sorted_page(node, wanted, sort, limit, cursor, fields)


@area.get(
    "/heliograph/clients/{clientid}/disconnects", errors=_BAD_CURSOR, answers=_DISCONNECT.listed("DisconnectList")
)
async def list_disconnects(
    clientid: str,
    nodes: NodesDep,
    limit: Annotated[int, Query(ge=1, le=_LIMIT_MAX, description="Rows of a page")] = 100,
    cursor: Annotated[str, Query(description="`meta.cursor` of the page before")] = "",
) -> Response:
    """The newest disconnects of a client, with reason and time, as far as the node remembers them.

    `broker.disconnect_history_size` says how many are remembered of all clients; a start of the node forgets them.
    """
    (before,) = read_cursor(cursor, _DISCONNECTS, 1)
    wanted = DisconnectsWanted(clientid, limit + 1, before)
    rows = await nodes.own.rows(CLIENTS_DISCONNECTS(wanted))
    meta: CursorMeta = {"limit": limit, "hasnext": len(rows) > limit}
    if len(rows) > limit:
        meta["cursor"] = cursor_of(_DISCONNECTS, rows[limit - 1].number)
    return json_response({"data": [_DISCONNECT(row) for row in rows[:limit]], "meta": meta})


@area.get("/heliograph/clients/{clientid}/refusals", answers=_REFUSALS.one)
async def get_refusals(clientid: str, nodes: NodesDep) -> dict[str, Any]:
    """The ban that keeps a client out, and what it was refused lately: connections and subscriptions.

    Also of a client that has no session. A start of the node forgets what was refused, not the ban; what is remembered
    of client ids without a session is little, and the newest.
    """
    return _REFUSALS(await nodes.own.ask(CLIENTS_REFUSALS(ClientId(clientid))))


async def _sorted_page(node: Node, wanted: ClientsFilter, sort: Sort, limit: int, cursor: str, fields: str) -> Response:
    names = field_names(fields)
    below = read_cursor(cursor, sort, 2)
    slices = node.slices(CLIENTS_TOP(TopClients(sort, wanted, limit + 1, *below)))
    with about_cursor(cursor):
        rows, has_next = await take_rows(slices, limit)
    meta: CursorMeta = {"limit": limit, "hasnext": has_next, "sort": sort}
    if has_next:
        meta["cursor"] = cursor_of(sort, rows[-1].count, rows[-1].at)
    found = [row.client for row in rows if row.client is not None]
    return json_response({"data": shown(found, node, names), "meta": meta})
