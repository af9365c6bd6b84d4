"""Stored messages published again, to a topic of their own, at a bounded rate."""

import uuid
from typing import Any, Final, NotRequired

from fastapi import Request
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.message_replays import MessageReplayOrder
from heliograph.management.api.replay_routes import add_replay_routes, jobs_of, wrong
from heliograph.management.replays.jobs import Owner
from heliograph.management.replays.message_replay import TOPIC, MessageReplay
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.callers import Caller, require, still_may
from heliograph.management.web.models import Body, Str, Whole
from heliograph.management.web.reader_processes import reader_access
from heliograph.management.web.times import NowDep, read_time_us, rfc3339
from heliograph.mqtt.topic import topic_filter_fault, topic_name_fault

area = Area("Message replays", "Stored messages published again.")

_LEVELS_MAX: Final = 65_536
_EXAMPLE: Final[dict[str, Any]] = {
    "topic": "room/#",
    "start": "2026-01-31T00:00:00Z",
    "end": "2026-01-31T01:00:00Z",
    "target": "replay/${topic}",
    "rate": 100,
}


class MessageReplayBody(Body):
    """Which messages are published again, and where to."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    topic: Str = Field(description="A topic filter")
    target: Str = Field(description="The topic that they are published to; `${topic}` is the one that they had")
    start: Str = Field(default="", description="Stored at this time or later: RFC 3339, or milliseconds")
    end: Str = Field(default="", description="Stored before this time; without, before the request")
    clientid: list[Str] | None = Field(default=None, description="Published by one of these")
    database: Str = "messages"
    rate: Whole = Field(default=100, ge=1, le=10_000, description="Messages a second, at most")
    limit: Whole = Field(default=10_000, ge=1, le=1_000_000, description="Messages altogether, at most")


class JobFailure(TypedDict):
    """Why a replay failed."""

    message: str
    code: NotRequired[str]


class ReplayProgress(TypedDict):
    """How far a replay is.

    Attributes:
        share: Of the work that is done, from 0 to 1.
        reasons: Why messages were refused.
    """

    share: float
    published: NotRequired[int]
    refused: NotRequired[int]
    too_large: NotRequired[int]
    reasons: NotRequired[list[str]]


class MessageReplayShown(TypedDict):
    """Messages that are published again.

    Attributes:
        state: `running`, `finished`, `failed` or `cancelled`.
        rate: Messages a second, at most.
    """

    id: str
    state: str
    topic: str
    target: str
    start: str | None
    end: str
    clientid: list[str] | None
    database: str
    rate: int
    limit: int
    owner: str
    progress: ReplayProgress
    error: NotRequired[JobFailure]


_jobs: Final = jobs_of("message_replay", at_once_max=2, kept_max=20)


@area.get("/heliograph/message_replays", scope="messages:read", answers=list[MessageReplayShown])
async def list_message_replays(request: Request) -> list[dict[str, Any]]:
    """The caller's replays, the oldest first; an administrator's list has all."""
    return [job.shown() for job in _jobs(request).all(request.state.caller)]


@area.post(
    "/heliograph/message_replays",
    scope="publish",
    status=201,
    answers=MessageReplayShown,
    errors={400: ("INVALID_PARAMETER",)},
)
async def begin_message_replay(
    body: MessageReplayBody, request: Request, nodes: NodesDep, now_s: NowDep
) -> dict[str, Any]:
    """Begin to publish stored messages again, in the order in which they were stored.

    They keep payload, QoS and properties, but for the expiry; the user properties `replayed-from`, `replayed-by` and
    `stored-at` mark them. The caller must be allowed to read stored messages too.
    """
    caller: Caller = request.state.caller
    require(caller, "messages:read", "GET")
    start, end = _checked(body, now_s)
    access = await reader_access(request, nodes)
    jobs = _jobs(request)
    jobs.check_room()
    bounds = (body.rate, body.limit)
    wanted = MessageReplayOrder(uuid.uuid4().hex, body.database, body.topic, body.target, start, end, *bounds)
    order = body.model_dump() | {
        "start": None if start is None else rfc3339(start),
        "end": rfc3339(end),
        "owner": caller.name,
    }
    owner = Owner(caller, still_may(request, "publish", "messages:read"))
    replay = MessageReplay(owner, order, nodes.own, wanted)
    jobs.add(replay)
    try:
        await replay.begin(access, body.clientid, request.app.state.programs)
    except BaseException:
        await jobs.remove(replay)
        raise
    return replay.shown()


add_replay_routes(
    area,
    "message_replay",
    _jobs,
    reads="messages:read",
    writes="publish",
    answers=MessageReplayShown,
    got="The state and progress of a replay.",
    ended="nothing is published after the answer",
)


def _checked(body: MessageReplayBody, now_s: float) -> tuple[int | None, int]:
    """The stretch of time, in microseconds since the epoch."""
    if (fault := topic_filter_fault(body.topic, _LEVELS_MAX)) is not None:
        raise wrong("topic", f"{body.topic[:200]!r} is no topic filter: {fault}")
    if (fault := topic_name_fault(body.target.replace(TOPIC, "t"), _LEVELS_MAX)) is not None:
        raise wrong("target", f"{body.target[:200]!r} is no topic: {fault}")
    start = read_time_us(body.start, "start") if body.start else None
    now = int(now_s * 1e6)  # later ones may be those that it publishes
    end = min(now, read_time_us(body.end, "end")) if body.end else now
    if start is not None and start >= end:
        raise wrong("end", "the stretch is empty: it ends before it begins")
    return start, end
