"""An area of the API: its routes, each with the scope that it needs and the errors that it may answer."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, cached_property, partial
from types import MethodType
from typing import Any, Final, TypeVar, get_args
from urllib.parse import unquote

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import is_typeddict

from heliograph.management.web.callers import authorize
from heliograph.management.web.error_codes import DESCRIPTIONS
from heliograph.management.web.errors import ApiError
from heliograph.management.web.places import place
from heliograph.management.web.rows import typed_dict
from heliograph.settings.secrets import FILE_PREFIX

DEPTH_MAX: Final = 64


class JsonRequest(Request):
    """A request whose JSON has no `NaN`, no half of a surrogate pair, and no more than `DEPTH_MAX` levels.

    Attributes:
        may_name_secret_files: Whether texts of it may begin with `file://`, as secrets in files of the node do. A
            caller that names one could make the node send any file to any server.
        refusal: Why it was refused; the framework raises another error in its place.
    """

    may_name_secret_files = True
    refusal: ApiError | None = None

    async def json(self) -> Any:
        """The body.

        Raises:
            orjson.JSONDecodeError: It is no JSON.
            ApiError: 400, it is nested too deeply.
        """
        text = await self.body()
        value = orjson.loads(text)
        if text.count(b"[") + text.count(b"{") > DEPTH_MAX and _is_deeper(value, DEPTH_MAX):
            raise self._refused(400, "BAD_REQUEST", f"the body has more than {DEPTH_MAX} levels of arrays and objects")
        if not self.may_name_secret_files and (name := _secret_file(value)):
            raise self._refused(
                403,
                "UNAUTHORIZED_ROLE",
                f"{name[:200]!r}: only who may change the configuration names files of the node",
            )
        return value

    def _refused(self, status: int, code: str, message: str) -> ApiError:
        self.refusal = ApiError(status, code, message)
        return self.refusal


def _secret_file(value: object) -> str:
    """A text of a value that stands for a secret in a file; empty if there is none."""
    values = [value]
    for one in values:  # it grows
        if isinstance(one, dict):
            values.extend(one.values())
        elif isinstance(one, list):
            values.extend(one)
        elif isinstance(one, str) and one[: len(FILE_PREFIX)].lower() == FILE_PREFIX:
            return one
    return ""


def _is_deeper(value: object, levels: int) -> bool:
    """Whether arrays and objects have more levels than that."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

BASE: Final = "/api/v5"
EVENTS: Final = "text/event-stream"
_SCOPE: Final = "x-scope"
_NUL: Final = "\0"  # behind `.` and `..`, which browsers and proxies take for folders
OPEN: Final = ""  # the scope of a route that everybody may call
KNOWN_MAX: Final = 160  # requests at once of known callers: each has a share
OPEN_BODY_BYTES_MAX: Final = 16 << 10  # of such a route
OPEN_BODY_S: Final = 5.0  # such requests take the places of others
# Whose settings have secrets, and which scope lets those be in files of the node.
_WITH_SECRETS: Final = frozenset({"actions:write", "connectors:write", "schemas:write", "sources:write"})
_ANY_FILE: Final = "config:write"
_NO_CONTENT: Final = 204
MISSING: Final = {404: ("NOT_FOUND",)}  # the errors of most routes about one thing
# What every route may answer, and those that only some may call.
_ALWAYS: Final = {
    400: {"BAD_REQUEST"},
    413: {"EXCEED_LIMIT"},
    500: {"INTERNAL_ERROR", "NODE_DOWN"},
    503: {"SERVICE_UNAVAILABLE"},
}
_OF_CALLERS: Final = {
    401: {
        "API_KEY_NOT_ALLOW",
        "AUTHORIZATION_HEADER_ERROR",
        "BAD_API_KEY_OR_SECRET",
        "BAD_TOKEN",
        "TOKEN_TIME_OUT",
    },
    403: {"UNAUTHORIZED_ROLE"},
}
_SCHEMES: Final[tuple[dict[str, list[str]], ...]] = ({"basicAuth": []}, {"bearerAuth": []})


class ScopedRoute(APIRoute):
    """A route for callers who have its scope, whose path parameters are decoded one by one: one may hold `%2F`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler: it looks who calls before it reads the body, and gets decoded parameters."""
        handle = super().get_route_handler()
        scope: str = (self.openapi_extra or {}).get(_SCOPE, OPEN)

        async def check_and_handle(request: Request) -> Response:
            if not scope:
                return await handled(request, await _short_body(request))
            await authorize(request, scope)
            with place(request, "requests", KNOWN_MAX):
                return await handled(request, request.receive)

        async def handled(request: Request, receive: Receive) -> Response:
            try:
                request.scope["path_params"] = {
                    name: unquote(value, errors="strict").removesuffix(_NUL) if isinstance(value, str) else value
                    for name, value in request.scope["path_params"].items()
                }
            except UnicodeDecodeError as error:
                raise ApiError(400, "BAD_REQUEST", "the path is not valid UTF-8") from error
            body = JsonRequest(request.scope, receive)
            body.may_name_secret_files = scope not in _WITH_SECRETS or request.state.caller.may(_ANY_FILE, "PUT")
            try:
                return await handle(body)
            except HTTPException:
                if body.refusal is not None:
                    raise body.refusal from None
                raise

        return check_and_handle


class LaterRoute(BaseRoute):
    """A route that is made at its first request: of all routes, most processes are asked for a few.

    Args:
        method: Its method of HTTP.
        make: Makes the route itself, for the document or to serve.

    Attributes:
        methods: Its method.
        path_regex: What its path looks like.
        is_open: Whether everybody may call it.
    """

    def __init__(self, method: str, path: str, make: Callable[[bool], BaseRoute], is_open: bool = False) -> None:
        self.is_open = is_open
        self.methods = {method}
        self.path_regex = compile_path(path)[0]
        self._make = make

    @cached_property
    def made(self) -> BaseRoute:
        return self._make(False)

    def documented(self) -> BaseRoute:
        """The route with the schemas of all answers, for the document."""
        return self._make(True)

    def is_for(self, scope: Scope) -> bool:
        """Whether it answers that path, of whatever method."""
        return self.path_regex.match(scope["path"]) is not None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or not self.is_for(scope):
            return Match.NONE, {}
        return self.made.matches(scope) if scope["method"] in self.methods else (Match.PARTIAL, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.made.handle(scope, receive, send)

    def __repr__(self) -> str:
        return f"LaterRoute({self.methods}, {self.path_regex.pattern})"


async def _short_body(request: Request) -> Receive:
    """The body of an unknown caller, for the route to receive.

    Raises:
        ApiError: 413, it is longer than what such routes take; 400, it comes too slowly.
    """
    body = b""
    try:
        async with asyncio.timeout(OPEN_BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > OPEN_BODY_BYTES_MAX:
                    text = f"a body of at most {OPEN_BODY_BYTES_MAX:,} bytes is taken here"
                    raise ApiError(413, "EXCEED_LIMIT", text, headers={"connection": "close"})
    except TimeoutError:
        text = f"all of the body has to be there within {OPEN_BODY_S:g} s"
        raise ApiError(400, "BAD_REQUEST", text, headers={"connection": "close"}) from None
    except ClientDisconnect:
        raise ApiError(400, "BAD_REQUEST", "the caller has gone before all of the body was there") from None
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return parts.pop() if parts else await request.receive()

    return receive


class Area:
    """Routes that belong together.

    Args:
        description: What they are for, for the document.
        scope: What their callers must be allowed to do, where a route names no other: to read it for GET, to write it
            for the other methods.

    Attributes:
        routes: The routes, in the order in which they are looked through.
        scopes: What their callers must be allowed to do.
    """

    def __init__(self, name: str, description: str = "", scope: str = "") -> None:
        self.name = name
        self.description = description
        self._scope = scope
        self.routes: list[LaterRoute] = []
        self.scopes: set[str] = set()

    def route(
        self,
        method: str,
        path: str,
        *,
        scope: str | None = None,
        errors: Mapping[int, Sequence[str]] | None = None,
        status: int = 200,
        name: str = "",
        answers: Any = None,
        events: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """Add a route.

        An answer that is a `TypedDict` is written as it is: its type is for the document and for mypy.

        Args:
            scope: What its caller must be allowed to do, as `clients:read`; `OPEN` for everybody; None for the scope of
                the area.
            errors: The codes that it may answer with, by status, beside those that every route may.
            status: The status of success.
            answers: The type of the answer, or what makes it, as methods of `ApiRow` do, for the document: where the
                endpoint makes a `Response`, or a plain dict.
            events: What the server-sent events of the answer have, by their names.
            more: What `APIRouter.add_api_route` takes: `response_model`, `responses`, `description` and others.
        """
        if scope is None:
            assert self._scope, f"the area {self.name} has no scope, and {method} {path} names none"
            scope = f"{self._scope}:{'read' if method == 'GET' else 'write'}"
        declared = {code: set(names) for code, names in (errors or {}).items()}
        for code, names in (_ALWAYS | (_OF_CALLERS if scope else {})).items():
            declared[code] = declared.get(code, set()) | names
        responses: dict[int | str, dict[str, Any]] = {
            code: _described(tuple(sorted(names))) for code, names in declared.items()
        }
        responses |= more.pop("responses", {})
        extra: dict[str, Any] = {"security": list(_SCHEMES) if scope else [], **({_SCOPE: scope} if scope else {})}
        extra |= more.pop("openapi_extra", {})

        def make(endpoint: Callable[..., Any], is_documented: bool) -> BaseRoute:
            router = APIRouter(prefix=BASE, tags=[self.name], route_class=ScopedRoute)
            model: dict[str, Any] = {"response_class": Response} if status == _NO_CONTENT else {}  # it has no type
            operation = _operation_id(name or endpoint.__name__)
            streamed = {} if events is None or not is_documented else _streamed(operation, events)
            if answers is not None:
                model |= {"response_model": answers() if _is_made(answers) else answers} if is_documented else {}
            elif not is_documented and _has_typed_dict(endpoint.__annotations__.get("return")):
                model |= {"response_model": Any}
            router.add_api_route(
                path,
                endpoint,
                methods=[method],
                status_code=status,
                responses=responses | streamed,
                name=name or endpoint.__name__,
                operation_id=operation,
                openapi_extra=extra,
                **(more | model),
            )
            return router.routes[0]

        def add(endpoint: Endpoint) -> Endpoint:
            self.routes.append(LaterRoute(method, f"{BASE}{path}", partial(make, endpoint), scope == OPEN))
            if scope:
                self.scopes.add(scope)
            return endpoint

        return add

    def get(self, path: str, **more: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, **more)

    def post(self, path: str, **more: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("POST", path, **more)

    def put(self, path: str, **more: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("PUT", path, **more)

    def delete(self, path: str, **more: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a route for DELETE; see `route`. Without another `status` it answers 204."""
        return self.route("DELETE", path, **{"status": _NO_CONTENT, **more})

    def __repr__(self) -> str:
        return f"Area({self.name}, {len(self.routes)} routes)"


def _is_made(answers: Any) -> bool:
    return isinstance(answers, MethodType | partial)


def _has_typed_dict(kind: object) -> bool:
    return is_typeddict(kind) or any(_has_typed_dict(one) for one in get_args(kind))


@cache
def _described(codes: tuple[str, ...]) -> dict[str, Any]:
    """An answer of errors for the document; the same for all routes that answer the same, since there are many."""
    schema = {
        "type": "object",
        "required": ["code", "message"],
        "properties": {"code": {"type": "string", "enum": list(codes)}, "message": {"type": "string"}},
    }
    text = "; ".join(DESCRIPTIONS[code] for code in codes)
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _streamed(operation: str, events: Mapping[str, Any]) -> dict[int | str, dict[str, Any]]:
    """An answer of events for the document, which moves the schema from JSON to them."""
    model = typed_dict(f"{operation[0].upper()}{operation[1:]}Events", "Events by their names.", events)
    return {200: {"model": model, "content": {EVENTS: {}}}}


def _operation_id(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
