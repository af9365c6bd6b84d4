"""Errors of the API: `{"code", "message"}` in every case, also where a node, a framework or we ourselves failed."""

import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final, Protocol, Self

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from heliograph.rpc import codes
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

_log = logging.getLogger(__name__)

# What nodes say that a route does not answer itself, by the code of docs/errors.md: status and code of the API.
OF_NODES: Final[dict[str, tuple[int, str]]] = {
    codes.BAD_ARGUMENTS: (400, "BAD_REQUEST"),
    "not_for_api_keys": (401, "API_KEY_NOT_ALLOW"),
    codes.OVERLOADED: (503, "SERVICE_UNAVAILABLE"),
    codes.TOO_MANY_REQUESTS: (503, "SERVICE_UNAVAILABLE"),
    codes.DEADLINE_EXCEEDED: (503, "SERVICE_UNAVAILABLE"),
    codes.STOPPING: (503, "SERVICE_UNAVAILABLE"),
    codes.CANCELLED: (503, "SERVICE_UNAVAILABLE"),
    codes.CONNECTION_LOST: (503, "SERVICE_UNAVAILABLE"),
    codes.INTERNAL: (500, "INTERNAL_ERROR"),
    codes.ANSWER_TOO_LARGE: (500, "INTERNAL_ERROR"),
    codes.UNKNOWN_METHOD: (404, "NOT_FOUND"),
}


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: The HTTP status.
        code: The code, of `error_codes.DESCRIPTIONS`.
        message: What was asked, what is valid and what to do.
        more: Further keys of the answer.
        headers: Further headers of the answer.
        tried: Kind and name that the caller gave, where it is not known.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.more = more
        self.headers = headers
        self.tried: tuple[str, str] | None = None

    def by(self, kind: str, name: str) -> Self:
        """The same error, of a caller who only says that it is that one."""
        self.tried = kind, name
        return self

    def response(self) -> Response:
        return error_response(self.status, self.code, self.message, self.headers, self.more)


class NotesRefused(Protocol):
    def note(self, request: Request, error: ApiError) -> None:
        """A request was answered with an error."""


def error_response(
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, object] | None = None,
) -> Response:
    """An answer in the form of errors."""
    body = {"code": code, "message": message, **(more or {})}
    return Response(orjson.dumps(body), status, dict(headers or {}), "application/json")


def add_error_handlers(app: FastAPI) -> None:
    """Answer everything that goes wrong in an application in the form of errors."""

    async def of_api(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        refused: NotesRefused | None = getattr(request.app.state, "refused", None)
        if refused is not None:
            refused.note(request, error)
        return error.response()

    async def of_node(request: Request, error: Exception) -> Response:
        assert isinstance(error, RpcError)
        status, code = OF_NODES.get(error.code, (400, "BAD_REQUEST"))
        return error_response(status, code, error.message)

    async def of_absence(request: Request, error: Exception) -> Response:
        return error_response(500, "NODE_DOWN", f"the node does not answer: {error}")

    async def of_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        # Where the route names it: EMQX answers so for rules, and with 400 elsewhere.
        names_type = 415 in getattr(request.scope.get("route"), "responses", ())
        if names_type and isinstance(error.body, bytes) and error.body:
            return error_response(415, "UNSUPPORTED_MEDIA_TYPE", "content-type:application/json Required")
        return error_response(400, "BAD_REQUEST", _said(error))

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == HTTPStatus.NOT_FOUND:
            return not_found(request)
        headers = {name.lower(): value for name, value in (error.headers or {}).items()}
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["allow"] = ", ".join(_methods_of(request.scope["path"], app.routes))
        code = "UNSUPPORTED_MEDIA_TYPE" if error.status_code == HTTPStatus.UNSUPPORTED_MEDIA_TYPE else "BAD_REQUEST"
        message = "Invalid json message received" if "parsing the body" in str(error.detail) else str(error.detail)
        return error_response(error.status_code, code, message, headers)

    async def of_us(request: Request, error: Exception) -> Response:
        incident = uuid.uuid4().hex[:12]
        _log.error("%s %s failed (incident %s)", request.method, request.url.path, incident, exc_info=error)
        return error_response(500, "INTERNAL_ERROR", f"an error of ours; the log has more of the incident {incident}")

    app.add_exception_handler(ApiError, of_api)
    app.add_exception_handler(RpcError, of_node)
    app.add_exception_handler(UnreachableError, of_absence)
    app.add_exception_handler(RequestValidationError, of_request)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(Exception, of_us)


def not_found(request: Request) -> Response:
    """The answer for a path that is not there, in the form that the caller accepts."""
    accept = request.headers.get("accept", "")
    if "application/json" in accept or accept in ("", "*/*"):
        return error_response(404, "NOT_FOUND", "Request Path Not Found")
    if "text/plain" in accept:
        return Response("Not found: Request Path Not Found\n", 404, media_type="text/plain")
    page = "<!doctype html><html lang=en><title>Not found</title><h1>404</h1><p>Request Path Not Found</p></html>"
    return Response(page, 404, media_type="text/html")


def _said(error: RequestValidationError) -> str:
    """What is wrong with a request; several faults as one text of JSON."""
    faults = [
        {"path": ".".join(str(step) for step in fault["loc"][1:]), "reason": str(fault["msg"])}
        for fault in error.errors()
    ]
    if any(fault["type"] == "json_invalid" for fault in error.errors()):
        return "Invalid json message received"
    if isinstance(error.body, bytes) and error.body:
        return "the body is no JSON that is called so: send it with the header content-type: application/json"
    if len(faults) == 1:
        return f"{faults[0]['path'] or 'the body'}: {faults[0]['reason']}"
    return json.dumps(faults, ensure_ascii=False)


def _methods_of(path: str, routes: Iterable[BaseRoute]) -> list[str]:
    """All methods of a path."""
    matching = [route for route in routes if (regex := getattr(route, "path_regex", None)) and regex.match(path)]
    return sorted({method for route in matching for method in getattr(route, "methods", None) or ()})
