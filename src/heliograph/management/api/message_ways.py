"""What became of messages: the ways that were recorded of them."""

from typing import Annotated, Any, Final, NotRequired

import msgspec
from fastapi import Query
from typing_extensions import TypedDict

from heliograph.control.proto_v1.message_ways import (
    MESSAGE_WAYS_LIST,
    MESSAGE_WAYS_SHOW,
    MESSAGE_WAYS_STATE,
    WaysState,
    WaysWanted,
    WayWanted,
)
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.paging import take_rows
from heliograph.management.web.times import read_time_us, rfc3339

area = Area("Message ways", "What became of messages: at hooks and rules, in storage, and at each receiver.")

_NOT_NOW: Final = (503, "SERVICE_UNAVAILABLE")
_LIST_ERRORS: Final = {400: ("BAD_REQUEST", "INVALID_PARAMETER"), 503: ("SERVICE_UNAVAILABLE",)}
_ERRORS: Final = {400: ("BAD_REQUEST",), 404: ("NOT_FOUND",), 503: ("SERVICE_UNAVAILABLE",)}


class WayObject(TypedDict):
    """A recorded message, and what became of it.

    Attributes:
        outcome: What became of it, in one word.
        why: The same in a sentence.
    """

    id: str
    at: str
    topic: str
    clientid: str
    qos: int
    retain: bool
    payload_bytes: int
    outcome: str
    why: str
    reason: str
    receivers: int
    delivered: int
    dropped: int


class RecordingState(TypedDict):
    """What is recorded."""

    is_recording: bool
    topics: list[str]
    clients: list[str]
    recorded: int
    missed: int
    stored_bytes: int
    retention_s: int
    oldest: str | None


class WaysMeta(TypedDict):
    """The recording, and the cursor of the next page."""

    count: int
    recording: RecordingState
    cursor: NotRequired[str]


class WayList(TypedDict):
    """A page of recorded messages."""

    data: list[WayObject]
    meta: WaysMeta


class WayStepObject(TypedDict):
    """What happened to a message.

    Attributes:
        after_us: Microseconds after its PUBLISH.
    """

    after_us: int
    stage: str
    what: str
    who: str
    text: str
    is_bad: bool
    policy: str


class WayReceiverObject(TypedDict):
    """What became of a message at one receiver; times are -1 where something did not happen."""

    clientid: str
    topic_filter: str
    state: str
    qos: int
    sent_count: int
    queued_after_us: int
    sent_after_us: int
    received_after_us: int
    acknowledged_after_us: int
    dropped_after_us: int
    reason: str
    why: str


class WholeWay(TypedDict):
    """The way of a message.

    Attributes:
        made_by: Rules that published it.
        left_out: Receivers that are not listed.
        asked: Why a client did not get it.
        retained: What became of it as a retained message.
    """

    id: str
    at: str
    topic: str
    clientid: str
    username: str
    qos: int
    retain: bool
    payload_bytes: int
    expires_after_s: int
    is_begun: bool
    made_by: list[str]
    outcome: str
    summary: str
    reason: str
    steps: list[WayStepObject]
    receivers: list[WayReceiverObject]
    left_out: int
    asked: str
    retained: str


@area.get("/heliograph/message_ways", scope="messages:read", answers=WayList, errors=_LIST_ERRORS)
async def list_message_ways(
    nodes: NodesDep,
    topic: Annotated[str, Query(description="A topic filter")] = "",
    clientid: Annotated[str, Query(description="Its publisher, or one of its receivers")] = "",
    since: Annotated[str | None, Query(description="Published then or later: RFC 3339, or milliseconds")] = None,
    cursor: Annotated[str, Query(description="`meta.cursor` of the answer before")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> dict[str, Any]:
    """Recorded messages and what became of them, the newest first; `meta.recording` says what is recorded.

    Where topics are long there are fewer than the limit, and a cursor.
    """
    since_us = 0 if since is None else read_time_us(since, "since")
    with answering(storage_failed=_NOT_NOW):
        wanted = WaysWanted(topic, clientid, since_us, cursor, limit + 1)
        rows, has_next = await take_rows(nodes.own.slices(MESSAGE_WAYS_LIST(wanted)), limit)
        state = await nodes.own.ask(MESSAGE_WAYS_STATE())
    meta: dict[str, Any] = {"count": len(rows), "recording": _recording(state)}
    if has_next:
        meta["cursor"] = rows[-1].message_id
    return {"data": [_timed(row, row.at_us) for row in rows], "meta": meta}


@area.get("/heliograph/message_ways/{id}", scope="messages:read", answers=WholeWay, errors=_ERRORS)
async def get_message_way(
    id: str,
    nodes: NodesDep,
    clientid: Annotated[str, Query(description="A client: `asked` says why it did not get the message")] = "",
) -> dict[str, Any]:
    """The way of one message. Times are microseconds after its PUBLISH; -1 where something did not happen."""
    with answering(storage_failed=_NOT_NOW):
        found = await nodes.own.ask(MESSAGE_WAYS_SHOW(WayWanted(id.lower(), clientid)))
    return _timed(found, found.at_us)


def _timed(one: msgspec.Struct, at_us: int) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(one)
    del told["at_us"]
    return {"id": told.pop("message_id"), "at": rfc3339(at_us), **told}


def _recording(state: WaysState) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(state)
    oldest_us = told.pop("oldest_us")
    return {**told, "oldest": rfc3339(oldest_us) if oldest_us else None}
