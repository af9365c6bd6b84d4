"""What one caller may take: the size of a body, and requests at once."""

import asyncio
import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heliograph.management.web.addresses import is_local, place_of
from heliograph.management.web.area import BASE
from heliograph.management.web.errors import error_response
from heliograph.management.web.places import Places

REQUESTS_MAX: Final = 200
BODY_BYTES_MAX: Final = 8 << 20
UPLOAD_BYTES_MAX: Final = 1 << 30  # of files, which are kept on the disk while they come
_PIECE_S: Final = 20.0  # a caller whose body comes slower is taken for gone
_BODY_S: Final = 120.0
_UPLOAD_S: Final = 3600.0
_UPLOADS: Final = re.compile(rf"{BASE}/(data/files|(listeners/[^/]+/)?authentication/[^/]+/import_users)")


class _RefusedBodyError(Exception):
    """A body is longer than is taken."""


class Limits:
    """Refuses bodies that are too long, with 413, and requests beyond `REQUESTS_MAX` at once, with 503.

    One address may have as many requests at once as there are free places: however many of its own it holds open, there
    are some left for others. What is on this machine may have all of them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._places = Places(REQUESTS_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else ""
        place = None if is_local(address) else place_of(address)
        if refusal := self._refusal(address, place):
            answer = error_response(503, "SERVICE_UNAVAILABLE", refusal, {"retry-after": "1"})
            await answer(scope, receive, send)
            return
        with self._places.taken(place):
            await self._bounded(scope, receive, send)

    def _refusal(self, address: str, place: int | None) -> str:
        """Why one more request from there is not answered now; empty where it is."""
        if self._places.may_take(place):
            return ""
        if not self._places.free:
            return f"{REQUESTS_MAX} requests are answered now"
        own = self._places.taken_by(place)
        return f"{own} requests of {address} are answered now, and others need the rest"

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        most = UPLOAD_BYTES_MAX if _UPLOADS.fullmatch(scope["path"]) else BODY_BYTES_MAX
        refusal = error_response(
            413, "EXCEED_LIMIT", f"a body of at most {most:,} bytes is taken", {"connection": "close"}
        )
        if _declared_bytes(scope) > most:
            await refusal(scope, receive, send)
            return
        body = _Body(receive, most)
        has_answered = False

        async def send_or_refuse(message: Message) -> None:
            nonlocal has_answered
            if not body.is_refused:
                has_answered = True
                await send(message)
            elif not has_answered:  # the framework makes an answer of its own of any error while it reads a body
                has_answered = True
                await refusal(scope, receive, send)

        try:
            await self._app(scope, body.receive, send_or_refuse)
        except _RefusedBodyError:
            if not has_answered:
                await refusal(scope, receive, send)


class _Body:
    """The body of a request while it comes, in time and not too long."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._end = asyncio.get_running_loop().time() + (_BODY_S if most == BODY_BYTES_MAX else _UPLOAD_S)
        self._size = 0
        self._is_whole = False
        self.is_refused = False

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(min(self._end, asyncio.get_running_loop().time() + _PIECE_S)):
                message = await self._receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._size > self._most:
                self.is_refused = True
                raise _RefusedBodyError
        return message


def _declared_bytes(scope: Scope) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0
