"""Pages of other origins: refused by their browsers, unless `dashboard.cors` lets them call the API."""

from collections.abc import Callable
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

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
        """Handle a request."""
        await (self._open if self._is_on() else self._app)(scope, receive, send)
