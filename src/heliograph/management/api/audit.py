"""The audit log: who changed what, from where, and how it ended."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import Query, Request, Response
from pydantic import Field

from heliograph.control.proto_v1.audit import AUDIT_LIST, AuditRow, AuditWanted
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Row
from heliograph.management.web.paging import PageDep, PageOf, page_response, take_page
from heliograph.management.web.times import read_time_us, rfc3339

area = Area("Audit", "Every change and every refused attempt, with its caller.")

# What `web.asked_nodes` tells a node of a caller.
_CALLER: Final = re.compile(r"(user|sso|api_key|stranger) (.*) from (\S+), request ([0-9a-f]+)", re.DOTALL)
_FROM: Final = {"user": "dashboard", "sso": "dashboard", "api_key": "rest_api", "stranger": "rest_api"}


class AuditAnswer(Row):
    """One change."""

    created_at: str
    node: str
    from_: str = Field(alias="from", description="`dashboard`, `rest_api` or `cli`")
    source: str
    source_ip: str
    operation_id: str
    operation_type: str
    operation_result: str
    request_id: str
    failure: str
    args: dict[str, Any]


@area.get("/audit", scope="audit:read", answers=PageOf[AuditAnswer], errors={400: ("INVALID_PARAMETER",)})
async def list_audit(
    request: Request,
    nodes: NodesDep,
    page: PageDep,
    source: Annotated[str, Query(max_length=300, description="Who: a user, an API key, or a user of the machine")] = "",
    operation_id: Annotated[str, Query(max_length=100, description="What, as `clients.kick`")] = "",
    operation_type: Annotated[str, Query(max_length=100, description="The area of what, as `clients`")] = "",
    operation_result: Annotated[Literal["success", "failure", ""], Query()] = "",
    request_id: Annotated[str, Query(max_length=64, description="Of the header `x-request-id` of an answer")] = "",
    gte_created_at: Annotated[str, Query(description="RFC 3339, or milliseconds")] = "",
    lte_created_at: Annotated[str, Query(description="RFC 3339, or milliseconds")] = "",
) -> Response:
    """Changes and refused requests of this node, the newest first."""
    await request.app.state.refused.noted()
    wanted = AuditWanted(
        f", request {request_id}" if request_id else source,
        operation_id or (f"{operation_type}." if operation_type else ""),
        {"success": True, "failure": False}.get(operation_result),
        _moment(gte_created_at, "gte_created_at"),
        _moment(lte_created_at, "lte_created_at"),
    )
    rows, has_next = await take_page(nodes.own.slices(AUDIT_LIST(wanted)), page)
    return page_response([_shown(row, nodes.own.name) for row in rows], page, None, has_next)


def _moment(text: str, name: str) -> str:
    """A time as the log has it; empty for none."""
    if not text:
        return ""
    try:
        return datetime.fromtimestamp(read_time_us(text, name) / 1e6, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return "9999"  # later than any line


def _shown(row: AuditRow, node: str) -> dict[str, Any]:
    caller = _CALLER.fullmatch(row.who)
    kind, source, address, request_id = caller.groups() if caller is not None else ("", row.who, "", "")
    return {
        "created_at": rfc3339(int(datetime.fromisoformat(row.at).timestamp() * 1e6)),
        "node": node,
        "from": _FROM.get(kind, "cli"),
        "source": source,
        "source_ip": address,
        "operation_id": row.method,
        "operation_type": row.method.partition(".")[0],
        "operation_result": "success" if row.outcome == "done" else "failure",
        "request_id": request_id,
        "failure": row.message or ("" if row.outcome == "done" else row.outcome),
        "args": orjson.loads(row.args),
    }
