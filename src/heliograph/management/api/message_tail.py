"""Messages as they come, as server-sent events: at most so many a second, cut to so many bytes."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing, suppress
from typing import Annotated, Final, NotRequired

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import StreamingResponse

from heliograph.control.proto_v1.tail import MESSAGES_TAIL, TailRow, TailWanted
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.event_streams import StreamEnd, event_of, event_stream
from heliograph.management.web.payloads import PayloadQuery, shown_payload
from heliograph.management.web.places import place
from heliograph.management.web.rows import ApiRow, typed_dict
from heliograph.mqtt.topic import topic_filter_fault
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

area = Area("Live tail", "Messages as they come.")

_SCOPE: Final = "messages:read"
_AT_ONCE_MAX: Final = 8
_LEVELS_MAX: Final = 65_536
_PAYLOAD_BYTES_MAX: Final = 64 << 10


_PAYLOAD: Final = Annotated[str, Field(description="As the request wants it; its beginning, where it is long")]
_MESSAGE: Final = ApiRow("TailedMessageObject", TailRow, payload=NotRequired[_PAYLOAD])


_EVENTS: Final = {
    "begin": typed_dict("TailBegin", "The tail is there; nothing is to be said of it.", {}),
    "message": _MESSAGE,
    "left_out": typed_dict("LeftOut", "Messages that came and are not shown.", {"left_out": int}),
    "end": StreamEnd,
}


@area.get("/heliograph/tail", scope=_SCOPE, response_class=StreamingResponse, events=_EVENTS)
async def tail_messages(
    request: Request,
    nodes: NodesDep,
    topic: Annotated[str, Query(description="A topic filter")],
    rate: Annotated[int, Query(ge=1, le=100, description="Messages a second, at most")] = 10,
    payload: PayloadQuery = "base64",
    max_payload_bytes: Annotated[int, Query(ge=0, le=_PAYLOAD_BYTES_MAX, description="Of each message")] = 1024,
    seconds: Annotated[int, Query(ge=1, le=86_400, description="When it ends by itself")] = 3600,
) -> StreamingResponse:
    """Messages as they are published, each as an event `message`; `left_out` says how many came that are not shown.

    It begins with an event `begin`, and ends with an event `end`, or when the caller disconnects.
    """
    fault = topic_filter_fault(topic, _LEVELS_MAX)
    if fault is not None:
        raise ApiError(400, "BAD_REQUEST", f"topic: {topic[:200]!r} is no topic filter: {fault}")
    wanted = TailWanted(topic, rate, 0 if payload == "none" else max_payload_bytes)
    with ExitStack() as held:
        held.enter_context(place(request, "live tails", _AT_ONCE_MAX))
        return event_stream(request, _SCOPE, _events(nodes.own, wanted, payload, seconds), held=held.pop_all())


async def _events(node: Node, wanted: TailWanted, payload: str, seconds: int) -> AsyncGenerator[bytes, None]:
    """What is sent to one looker-on; ends after so many seconds, or with the node."""
    rows: asyncio.Queue[list[TailRow] | str] = asyncio.Queue(1)
    following = asyncio.create_task(_follow(node, wanted, rows), name="tail")
    end = asyncio.get_running_loop().time() + seconds
    try:
        came: list[TailRow] | str = []
        while not isinstance(came, str):
            yield b"".join(_of_row(row, payload) for row in came)
            came = f"{seconds} seconds are over"
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    came = await rows.get()
        yield event_of("end", {"why": came})
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _follow(node: Node, wanted: TailWanted, rows: asyncio.Queue[list[TailRow] | str]) -> None:
    """Ask the node, over a connection of its own; a caller who does not read makes the node leave messages out."""
    why = "the node has ended it"
    try:
        with node.alone() as own:
            async with aclosing(own.slices(MESSAGES_TAIL(wanted), timeout_s=None)) as slices:
                async for came in slices:
                    await rows.put(came)
    except (RpcError, UnreachableError) as error:
        why = str(error)
    await rows.put(why)


def _of_row(row: TailRow, payload: str) -> bytes:
    if not row.msgid:
        return event_of("begin", {}) if row.left_out == 0 else event_of("left_out", {"left_out": row.left_out})
    return event_of("message", _MESSAGE(row, **shown_payload(row.payload, payload)), _text)


def _text(value: object) -> str:
    """Correlation data, which are bytes."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
