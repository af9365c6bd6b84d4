"""Answers that go on for long, as streams of events: they end when their caller may not have them any more."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, aclosing, suppress
from functools import partial
from typing import Any, Final, NotRequired

import orjson
from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from heliograph.management.web.callers import authorize
from heliograph.management.web.errors import ApiError
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

_log = logging.getLogger(__name__)

CHECK_S: Final = 2.0  # within which a stream ends whose login has ended
ALIVE_S: Final = 15.0  # after which a stream without events gives a sign of life, for proxies
ALIVE: Final = b": it is on\n\n"
_STREAM_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}  # proxies are to pass each event on


class StreamEnd(TypedDict):
    """Why a stream ends; of one that was refused, with a code."""

    why: str
    code: NotRequired[str]
    message: NotRequired[str]


def event_of(name: str, data: object, default: Callable[[Any], Any] | None = None) -> bytes:
    """A server-sent event with an object as JSON.

    Args:
        default: Makes of what JSON does not know something that it does.
    """
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data, default))


class EventStream(StreamingResponse):
    """Server-sent events.

    Args:
        events: What is sent.
        held: Is closed behind them, whatever becomes of the connection.
    """

    def __init__(self, events: AsyncIterator[bytes], held: ExitStack) -> None:
        super().__init__(events, media_type="text/event-stream", headers=_STREAM_HEADERS)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


def event_stream(
    request: Request,
    scope: str,
    events: AsyncGenerator[bytes, None],
    last: str = "end",
    held: ExitStack | None = None,
) -> EventStream:
    """Server-sent events, which end where the login does, or loses the scope of the route.

    Args:
        last: The event that says so.
        held: Is closed behind them, whatever becomes of the connection.
    """

    def end(refusal: ApiError) -> bytes:
        return event_of(last, {"code": refusal.code, "message": refusal.message, "why": refusal.message})

    checked = while_allowed(request, scope, events, end, ALIVE)
    return EventStream(checked, held or ExitStack())


async def while_allowed(
    request: Request,
    scope: str,
    parts: AsyncGenerator[bytes, None],
    end: Callable[[ApiError], bytes],
    alive: bytes = b"",
) -> AsyncGenerator[bytes, None]:
    """The parts of a long answer, as long as its caller may have them.

    Args:
        scope: That of the route.
        parts: They are closed whatever becomes of the answer.
        end: The last part, where the caller may not have more.
        alive: What is sent after a while without a part.
    """
    loop = asyncio.get_running_loop()
    next_check, next_sign = loop.time() + CHECK_S, loop.time() + ALIVE_S
    made: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(1)
    making = asyncio.create_task(_make(parts, made), name="parts of an answer")
    try:
        while True:
            part: bytes | Exception | None = b""
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_check):
                    part = await made.get()
            if loop.time() >= next_check:
                next_check = loop.time() + CHECK_S
                if (refusal := await refusal_of(partial(authorize, request, scope))) is not None:
                    yield end(refusal)
                    return
            if part is None:
                return
            if isinstance(part, Exception):
                raise part
            if not part and loop.time() >= next_sign:
                part = alive
            if part:
                next_sign = loop.time() + ALIVE_S
                yield part
    finally:
        making.cancel()  # it goes on to its end by itself where this is not let wait
        await asyncio.wait({making})


async def _make(parts: AsyncGenerator[bytes, None], made: asyncio.Queue[bytes | Exception | None]) -> None:
    """Close the parts in the task that makes them: a server cancels what waits in its own again and again."""
    try:
        async with aclosing(parts):
            async for part in parts:
                await made.put(part)
    except Exception as error:  # noqa: BLE001 - the answer raises it
        await made.put(error)
    else:
        await made.put(None)


async def refusal_of(check: Callable[[], Awaitable[None]]) -> ApiError | None:
    """Why what was begun for a caller may not go on; None where it may, or the node does not say now.

    Args:
        check: Raises `ApiError` where it may not.
    """
    try:
        with suppress(RpcError, UnreachableError):
            await check()
    except ApiError as error:
        return error
    except Exception:  # noqa: BLE001 - a caller that cannot be known gets nothing
        _log.exception("a caller cannot be checked")
        return ApiError(500, "INTERNAL_ERROR", "an error of ours; the log has more of it")
    return None
