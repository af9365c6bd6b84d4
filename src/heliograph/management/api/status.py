"""How this node is, for load balancers and probes; the codes of errors."""

from typing import Annotated, Any, Final, Literal

from fastapi import Query, Response
from typing_extensions import TypedDict

from heliograph import __version__
from heliograph.control.proto_v1.node import NODE_STATUS
from heliograph.management.web.area import OPEN, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.error_codes import DESCRIPTIONS
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import json_response
from heliograph.rpc.conversation import UnreachableError

area = Area("Status", "Whether the node works, and what the codes of errors mean.")

_TEXT_TOO: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/plain": {}}},
    503: {"description": "It does not run."},
}


class NodeHealth(TypedDict):
    """Whether a node works."""

    node_name: str
    rel_vsn: str
    broker_status: Literal["started", "stopped"]
    app_status: Literal["running", "not_running"]


class ErrorCode(TypedDict):
    """A code of errors and what it means."""

    code: str
    description: str


@area.route("HEAD", "/status", scope=OPEN, response_class=Response, include_in_schema=False)
@area.get("/status", scope=OPEN, answers=NodeHealth, responses=_TEXT_TOO)
async def get_status(nodes: NodesDep, format: Annotated[str | None, Query(description="`json`")] = None) -> Response:
    """Whether the node works, in two lines or as JSON."""
    try:
        await nodes.own.ask(NODE_STATUS(), timeout_s=5.0)
        is_running = True
    except UnreachableError:
        is_running = False
    name = nodes.own.name
    status, headers = (200, {}) if is_running else (503, {"retry-after": "15"})
    if format == "json":
        words = ("started", "running") if is_running else ("stopped", "not_running")
        answer = {"node_name": name, "rel_vsn": __version__, "broker_status": words[0], "app_status": words[1]}
        response = json_response(answer, status)
        response.headers.update(headers)
        return response
    words = ("started", "is running") if is_running else ("stopped", "is not running")
    return Response(f"Node {name} is {words[0]}\nemqx {words[1]}", status, headers, "text/plain")


@area.get("/error_codes", scope=OPEN)
async def list_error_codes() -> list[ErrorCode]:
    """All codes of errors."""
    return [{"code": code, "description": words} for code, words in DESCRIPTIONS.items()]


@area.get("/error_codes/{code}", scope=OPEN, errors={400: ("NOT_FOUND",)})
async def get_error_code(code: str) -> ErrorCode:
    """One code."""
    if code not in DESCRIPTIONS:
        raise ApiError(400, "NOT_FOUND", f"there is no code {code[:100]!r}")
    return {"code": code, "description": DESCRIPTIONS[code]}
