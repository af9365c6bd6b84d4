"""What is done to each request and its answer: an id, a path whose parts are decoded one by one, what browsers keep."""

import uuid
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER: Final = b"x-request-id"
# Unless a route says otherwise: nothing stays in a shared browser, and types are as declared.
_OF_ALL: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class RequestScope:
    """Gives each request an id, which its answer has too, and has it routed by the path as it was sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
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
