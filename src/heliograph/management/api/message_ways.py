"""What became of messages: the ways that were recorded of them."""

from typing import Annotated, Any, Final, NotRequired

from fastapi import Query

from heliograph.control.proto_v1.message_ways import (
    MESSAGE_WAYS_LIST,
    MESSAGE_WAYS_SHOW,
    MESSAGE_WAYS_STATE,
    MessageWay,
    WayRow,
    WaysState,
    WaysWanted,
    WayWanted,
)
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.paging import take_rows
from heliograph.management.web.rows import ApiRow
from heliograph.management.web.times import read_time_us

area = Area(
    "Message ways", "What became of messages: at hooks and rules, in storage, and at each receiver.", scope="messages"
)

_NOT_NOW: Final = (503, "SERVICE_UNAVAILABLE")
_LIST_ERRORS: Final = {400: ("INVALID_PARAMETER",)}


_WAY: Final = ApiRow("WayObject", WayRow)
_WHOLE_WAY: Final = ApiRow("WholeWay", MessageWay)
_RECORDING: Final = ApiRow("RecordingState", WaysState)
_WAYS: Final = _WAY.listed("WayList", {"count": int, "recording": _RECORDING, "cursor": NotRequired[str]})


@area.get("/heliograph/message_ways", answers=_WAYS, errors=_LIST_ERRORS)
async def list_message_ways(
    nodes: NodesDep,
    topic: Annotated[str, Query(description="A topic filter")] = "",
    clientid: Annotated[str, Query(description="Its publisher, or one of its receivers")] = "",
    since: Annotated[str | None, Query(description="Published then or later: RFC 3339, or milliseconds")] = None,
    outcome: Annotated[list[str] | None, Query(description="With one of these; `dropped`: not for everybody")] = None,
    reason: Annotated[str, Query(description="Refused, or dropped for a receiver, for this reason")] = "",
    cursor: Annotated[str, Query(description="`meta.cursor` of the answer before")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """Recorded messages and what became of them, the newest first; `meta.recording` says what is recorded.

    Where topics are long there are fewer than the limit, and a cursor.
    """
    since_us = 0 if since is None else read_time_us(since, "since")
    with answering(storage_failed=_NOT_NOW):
        wanted = WaysWanted(topic, clientid, since_us, cursor, limit + 1, tuple(filter(None, outcome or ())), reason)
        rows, has_next = await take_rows(nodes.own.slices(MESSAGE_WAYS_LIST(wanted)), limit)
        state = await nodes.own.ask(MESSAGE_WAYS_STATE())
    meta: dict[str, Any] = {"count": len(rows), "recording": _RECORDING(state)}
    if has_next:
        meta["cursor"] = rows[-1].message_id
    return {"data": [_WAY(row) for row in rows], "meta": meta}


@area.get("/heliograph/message_ways/{id}", answers=_WHOLE_WAY.one, errors=MISSING)
async def get_message_way(
    id: str,
    nodes: NodesDep,
    clientid: Annotated[str, Query(description="A client: `asked` says why it did not get the message")] = "",
) -> dict[str, Any]:
    """The way of one message. Times are microseconds after its PUBLISH; -1 where something did not happen."""
    with answering(storage_failed=_NOT_NOW):
        found = await nodes.own.ask(MESSAGE_WAYS_SHOW(WayWanted(id.lower(), clientid)))
    return _WHOLE_WAY(found)
