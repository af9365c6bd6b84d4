"""Stored messages: searched by topic and time, or found by their position."""

import base64
import binascii
import json
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal, NotRequired

import orjson
from fastapi import Depends, Query, Request
from starlette.responses import StreamingResponse
from typing_extensions import TypedDict

from heliograph.management.replays.process import told_by
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.event_streams import while_allowed
from heliograph.management.web.payloads import PayloadQuery, shown_payload
from heliograph.management.web.places import place
from heliograph.management.web.reader_processes import MESSAGE_LINES, SEARCH, ask_reader, reader_access
from heliograph.management.web.times import read_time_us, rfc3339
from heliograph.mqtt.topic import topic_filter_fault

area = Area("Stored messages", "What durable storage holds.", scope="messages")

_SCOPE: Final = "messages:read"
_SEARCH_S: Final = 10
_PAYLOAD_BYTES: Final = 1 << 20
_CURSOR_BYTES_MAX: Final = 1 << 20
_LEVELS_MAX: Final = 65_536
_EXPORTS_AT_ONCE: Final = 2
_BEFORE: Final = "before"  # what a cursor of a list with the newest first names
_TIME_DIGITS_MAX: Final = 18
_PIECE_BYTES: Final = 64 << 10
_JSON_LINES: Final = "application/jsonl"

PayloadBytes = Annotated[int, Query(ge=0, le=_PAYLOAD_BYTES, description="How much of each payload is shown")]
_ERRORS: Final = {400: ("INVALID_PARAMETER",)}


class StoredMessageObject(TypedDict):
    """A stored message.

    Attributes:
        id: Its stream and its place there.
        properties: Of MQTT 5.
        payload: As the request wants it, or its beginning; left out with `none`.
    """

    id: str
    msgid: str
    topic: str
    qos: int
    retain: bool
    from_clientid: str
    from_username: str | None
    properties: dict[str, str]
    received_at: str
    stored_at: str
    payload_bytes: int
    payload: NotRequired[str]


class StoredMeta(TypedDict):
    """How many messages the page has, and the cursor of the next one."""

    count: int
    cursor: NotRequired[str]


class StoredMessageList(TypedDict):
    """A page of stored messages."""

    data: list[StoredMessageObject]
    meta: StoredMeta


async def _selection(
    topic: Annotated[str, Query(description="A topic filter")] = "#",
    start: Annotated[str | None, Query(description="Stored at this time or later: RFC 3339, or milliseconds")] = None,
    end: Annotated[str | None, Query(description="Stored before this time")] = None,
    clientid: Annotated[list[str] | None, Query(description="Published by one of these")] = None,
    database: str = "messages",
) -> dict[str, Any]:
    """Which messages are meant, as the processes take it that read them."""
    fault = topic_filter_fault(topic, _LEVELS_MAX)
    if fault is not None:
        raise ApiError(400, "BAD_REQUEST", f"topic: {topic[:200]!r} is no topic filter: {fault}")
    return {
        "database": database,
        "topic": topic,
        "start": None if start is None else read_time_us(start, "start"),
        "end": None if end is None else read_time_us(end, "end"),
        "clientids": clientid,
    }


SelectionDep = Annotated[dict[str, Any], Depends(_selection)]


@area.get("/heliograph/messages", errors=_ERRORS)
async def search_stored_messages(
    request: Request,
    nodes: NodesDep,
    selection: SelectionDep,
    order: Annotated[Literal["oldest", "newest"], Query(description="Which come first")] = "oldest",
    limit: Annotated[int, Query(ge=1, le=1000, description="Messages, about: a commit comes whole")] = 100,
    cursor: Annotated[str | None, Query(description="`meta.cursor` of the answer before")] = None,
    payload: PayloadQuery = "base64",
    max_payload_bytes: PayloadBytes = 65_536,
) -> StoredMessageList:
    """Messages in the order in which they were stored, or the last one first. The last page has no `meta.cursor`.

    What is stored meanwhile comes at the end of those with the oldest first, and never in those with the newest first.
    """
    asked = {
        **selection,
        "order": order,
        "limit": limit,
        "positions": {},
        "seconds": _SEARCH_S,
        "payload_bytes": 0 if payload == "none" else max_payload_bytes,
    }
    if cursor is not None:
        asked |= {"positions": _positions(cursor)} if order == "oldest" else {"end": _before(cursor, asked["end"])}
    found = await ask_reader(request, nodes, SEARCH, asked)
    meta: StoredMeta = {"count": len(found["rows"])}
    if found["remaining"]:
        places = found["positions"] if order == "oldest" else {_BEFORE: str(found["before"])}
        meta["cursor"] = _cursor(places)
    return {"data": [_message(row, payload) for row in found["rows"]], "meta": meta}


@area.get("/heliograph/messages/export", scope=_SCOPE, response_class=StreamingResponse, errors=_ERRORS)
async def export_stored_messages(
    request: Request,
    nodes: NodesDep,
    selection: SelectionDep,
    limit: Annotated[int, Query(ge=1, le=1_000_000, description="Messages, at most")] = 10_000,
    payload: PayloadQuery = "base64",
    max_payload_bytes: PayloadBytes = _PAYLOAD_BYTES,
) -> StreamingResponse:
    """The messages of a search as JSON Lines, in the order in which they were stored; read while they are sent."""
    asked = {
        **selection,
        "limit": limit,
        "payload_bytes": 0 if payload == "none" else max_payload_bytes,
    }
    access = await reader_access(request, nodes)
    told_lines = told_by(request.app.state.programs, MESSAGE_LINES, orjson.dumps({**asked, **access}))
    lines = _placed(request, told_lines)
    first = await anext(lines, None)  # takes its place at once
    if first is None or "error" in first:
        await lines.aclose()
        message = "the export failed; the log of the node says why" if first is None else first["error"]["message"]
        raise ApiError(400 if first else 503, "BAD_REQUEST" if first else "SERVICE_UNAVAILABLE", message)
    headers = {"content-disposition": 'attachment; filename="messages.jsonl"', "cache-control": "no-store"}
    exported = while_allowed(request, _SCOPE, _exported(first, lines, payload), _refused_line)
    return StreamingResponse(exported, headers=headers, media_type=_JSON_LINES)


@area.get("/heliograph/messages/{id}", errors={**_ERRORS, 404: ("NOT_FOUND",)})
async def get_stored_message(
    id: str,
    request: Request,
    nodes: NodesDep,
    payload: PayloadQuery = "base64",
    max_payload_bytes: PayloadBytes = _PAYLOAD_BYTES,
) -> StoredMessageObject:
    """One message, by its `id` of a search: its stream and its position there."""
    stream, at, position = id.partition("@")
    if not at or not position.partition("-")[0].isdecimal():
        raise ApiError(400, "BAD_REQUEST", f"{id[:200]!r} is no id of a stored message; a search gives them")
    asked = {"stream": stream, "position": position, "payload_bytes": 0 if payload == "none" else max_payload_bytes}
    rows = (await ask_reader(request, nodes, SEARCH, asked, (404, "NOT_FOUND")))["rows"]
    if not rows:
        raise ApiError(404, "NOT_FOUND", f"there is no stored message {id[:200]!r}")
    return _message(rows[0], payload)


async def _placed(
    request: Request, lines: AsyncGenerator[dict[str, Any], None]
) -> AsyncGenerator[dict[str, Any], None]:
    """The lines of a process, which has one of the places of exports from its start to its end.

    Raises:
        ApiError: 503, there is none.
    """
    with place(request, "exports", _EXPORTS_AT_ONCE):
        async with aclosing(lines):
            async for line in lines:
                yield line


async def _exported(
    first: dict[str, Any], lines: AsyncGenerator[dict[str, Any], None], payload: str
) -> AsyncGenerator[bytes, None]:
    """The lines of an export, in pieces; one that fails in its middle ends with a line that has an `error`."""
    async with aclosing(lines):
        for piece in _pieces(first, payload):
            yield piece
        del first
        async for line in lines:
            for piece in _pieces(line, payload):
                yield piece


def _pieces(line: dict[str, Any], payload: str) -> Iterator[bytes]:
    """Lines in pieces, of which some wait where a caller reads slowly."""
    lines = _json_lines(line, payload)
    for at in range(0, len(lines), _PIECE_BYTES):
        yield lines[at : at + _PIECE_BYTES]


def _json_lines(line: dict[str, Any], payload: str) -> bytes:
    if "error" in line:
        return orjson.dumps({"error": line["error"]["message"]}) + b"\n"
    return b"".join(orjson.dumps(_message(row, payload)) + b"\n" for row in line.get("rows", ()))


def _refused_line(refusal: ApiError) -> bytes:
    return orjson.dumps({"error": refusal.message}) + b"\n"


def _cursor(places: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(places).encode())).decode()


def _positions(cursor: str) -> dict[str, str]:
    """How far each stream was read."""
    positions = _places(cursor)
    if _BEFORE in positions:
        raise ApiError(400, "BAD_REQUEST", "the cursor is of a list with the newest messages first")
    return positions


def _before(cursor: str, end: int | None) -> int:
    """The time in microseconds back to which everything was read, or `end` if that is before."""
    before = _places(cursor).get(_BEFORE, "")
    if not before.isascii() or not before.isdigit() or len(before) > _TIME_DIGITS_MAX:
        raise ApiError(400, "BAD_REQUEST", "the cursor is not one of a list with the newest messages first")
    return int(before) if end is None else min(int(before), end)


def _places(cursor: str) -> dict[str, str]:
    try:
        unpacking = zlib.decompressobj()
        places = json.loads(unpacking.decompress(base64.urlsafe_b64decode(cursor), _CURSOR_BYTES_MAX))
    except (binascii.Error, zlib.error, ValueError):
        places = None
    if not isinstance(places, dict) or not all(isinstance(one, str) for one in places.values()):
        raise ApiError(400, "BAD_REQUEST", "the cursor is not one of this list")
    return places


def _message(row: dict[str, Any], payload: str) -> StoredMessageObject:
    return {
        "id": f"{row['stream']}@{row['position']}",
        "msgid": row["guid"].upper(),
        "topic": row["topic"],
        "qos": row["qos"],
        "retain": row["retain"],
        "from_clientid": row["clientid"],
        "from_username": row["username"],
        "properties": row["properties"] or {},
        "received_at": rfc3339(row["received_at"]),
        "stored_at": rfc3339(row["stored_at"]),
        "payload_bytes": row["payload_bytes"],
        **shown_payload(base64.b64decode(row["payload"]), payload),
    }
