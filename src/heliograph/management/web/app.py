"""The application: the areas of the API below its base path, and what holds for all of them."""

import uuid
from collections.abc import Callable, Sequence
from typing import Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.config.management_settings import ManagementSettings
from heliograph.management.asking.nodes import Nodes
from heliograph.management.web.area import BASE, Area
from heliograph.management.web.callers import Callers
from heliograph.management.web.errors import add_error_handlers
from heliograph.management.web.limits import Limits
from heliograph.management.web.proxies import TrustedProxies
from heliograph.processes.programs import Programs

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE")
_HEADERS: Final = ("Authorization", "Content-Type", "Accept", "If-Match")


class Cors:
    """Adds the headers of cross-origin requests while the setting says so; never for cookies.

    Args:
        app: What is called.
        is_on: Whether they are added.
    """

    def __init__(self, app: ASGIApp, is_on: Callable[[], bool]) -> None:
        self._app = app
        self._is_on = is_on
        self._open = CORSMiddleware(
            app,
            allow_origins=("*",),
            allow_methods=_METHODS,
            allow_headers=_HEADERS,
            expose_headers=("x-request-id",),
            allow_credentials=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._open if self._is_on() else self._app)(scope, receive, send)


_HEADER: Final = b"x-request-id"
# Unless a route says otherwise: nothing stays in a shared browser, and types are as declared.
_OF_ALL: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class RequestScope:
    """Gives each request an id, which its answer has too, and has it routed by the path as it was sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        raw_path: bytes = scope.get("raw_path") or b""
        if b"%" in raw_path:
            scope["path"] = raw_path.partition(b"?")[0].decode("latin-1")

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (_HEADER, request_id.encode())]
                names = {name.lower() for name, _ in headers}
                message["headers"] = headers + [one for one in _OF_ALL if one[0] not in names]
            await send(message)

        await self._app(scope, receive, send_with_id)


def make_app(
    areas: Sequence[Area],
    settings: ManagementSettings,
    nodes: Nodes,
    callers: Callers,
    programs: Programs,
    now_s: Callable[[], float],
) -> FastAPI:
    """The application.

    What routes use stands in `app.state`: `settings` (replaced when they change), `nodes`, `callers`,
    `programs` (which start processes), `now_s` (the wall clock), the `scopes` of all routes, and the `places` that
    callers share (`web.places`).
    """
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        # What goes to OpenTelemetry `management/telemetry` sends; FastAPI would look at each request whether it is to.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.settings = settings
    app.state.nodes = nodes
    app.state.callers = callers
    app.state.programs = programs
    app.state.now_s = now_s
    app.state.places = {}
    app.state.scopes = sorted(set().union(*(area.scopes for area in areas)))
    for area in areas:
        app.router.routes.extend(area.routes)
    add_error_handlers(app)
    app.add_middleware(Cors, is_on=lambda: app.state.settings.dashboard.cors)
    opened = [route for area in areas for route in area.routes if route.is_open]
    app.add_middleware(
        Limits,
        is_open=lambda scope: any(one.is_for(scope) for one in opened),
        has_pace=lambda scope: scope["path"].startswith(f"{BASE}/"),
    )
    app.add_middleware(RequestScope)
    app.add_middleware(TrustedProxies, settings=lambda: app.state.settings.dashboard)
    return app
