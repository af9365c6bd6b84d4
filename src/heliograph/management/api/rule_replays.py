"""The rule time machine: a rule is run over stored messages, without doing anything with its rows."""

from typing import Any, Final, Literal, NotRequired

import msgspec
import orjson
from fastapi import Request
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.replays import RULES_REPLAY_SETTINGS, ReplaySettings, ReplaySettingsWanted
from heliograph.management.api.replay_routes import MISSING, add_replay_routes, found, jobs_of, wrong
from heliograph.management.replays.jobs import FAILED, Owner
from heliograph.management.replays.rule_replay import RuleReplay
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.callers import Caller, require, still_may
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str, Whole
from heliograph.management.web.reader_processes import reader_access
from heliograph.management.web.times import NowDep, read_time_us, rfc3339

area = Area("Rule replays", "Rules run over stored messages; their rows are only shown.")

_EARLIEST: Final = "earliest"
_NOW: Final = "now"
_EXAMPLE: Final[dict[str, Any]] = {"rule": "warm_rooms", "from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z"}


class ReplayBody(Body):
    """A rule, and the stretch of the past that it is run over."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    rule: Str = Field(default="", description="A rule of the broker; else, or as `pipeline:NAME`, one of the pipeline")
    sql: Str = Field(default="", max_length=1 << 20, description="SQL: alone, or an edited text of `rule`")
    compare: Str = Field(default="", max_length=1 << 20, description="The name of a rule, or SQL, to compare with")
    since: Str = Field(alias="from", description="`earliest`, RFC 3339, or milliseconds: stored then or later")
    until: Str = Field(default=_NOW, alias="to", description="`now`, RFC 3339, or milliseconds: stored before")
    engine: Literal["broker", "spark"] = "broker"
    limit: Whole = Field(default=100, ge=1, le=1000, description="Rows of each kind that are shown; counts are of all")
    seconds: Whole = Field(default=600, ge=1, le=3600, description="When it ends by itself")
    database: Str = Field(default="", description="The database; without, that of the rule")


class ReplayedText(TypedDict):
    """A rule that is run over stored messages.

    Attributes:
        of: `broker`, `pipeline` or `sql`.
        is_edited: Whether its text is another one than that of the rule.
    """

    name: str
    of: str
    sql: str
    is_edited: bool
    topics: list[str]
    database: str


class JobError(TypedDict):
    """Why a job failed."""

    message: str
    code: NotRequired[str]
    field: NotRequired[str]


class StartedRule(TypedDict):
    """What became of the start of a rule."""

    state: str
    message: NotRequired[str]
    lines: NotRequired[list[str]]


class RuleReplayProgress(TypedDict):
    """How far a replay is.

    Attributes:
        share: Of the work that is done, from 0 to 1.
    """

    share: float
    messages: NotRequired[int]
    rows: NotRequired[int]
    failures: NotRequired[int]
    no_result: NotRequired[int]


class ReplayedMessageObject(TypedDict):
    """What a rule made of a message, or made otherwise than another one.

    Attributes:
        stored_at: Microseconds since the epoch.
        row: Of the rule; a text, where it is long.
        before: Of the rule beside it, where that differs.
        error: Why the rule failed.
    """

    id: str
    topic: str
    clientid: str
    stored_at: int
    row_number: NotRequired[int]
    row: NotRequired[Any]
    before: NotRequired[Any]
    error: NotRequired[str]


class RuleComparison(TypedDict):
    """What differs from the rows of the rule beside it."""

    compared_messages: int
    compared_rows_count: int
    compared_failures_count: int
    compared_no_result_count: int
    added_count: int
    gone_count: int
    changed_count: int
    equal_count: int
    added: list[ReplayedMessageObject]
    gone: list[ReplayedMessageObject]
    changed: list[ReplayedMessageObject]


class NotDone(TypedDict):
    """An action that would have got rows."""

    action: str
    target: str
    rows: int
    what: str


class RuleReplayResult(TypedDict):
    """What a rule makes of stored messages; counts are of all, rows the first of each kind.

    Attributes:
        complete: Whether all of the stretch was read in the time that there was.
        notes: What is to be known of it.
    """

    complete: bool
    seconds: float
    messages: int
    rows_count: int
    failures_count: int
    no_result_count: int
    messages_per_second: int
    rows_per_second: int
    rows: list[ReplayedMessageObject]
    failures: list[ReplayedMessageObject]
    not_done: list[NotDone]
    notes: list[str]
    comparison: NotRequired[RuleComparison]


RuleReplayShown = TypedDict(
    "RuleReplayShown",
    {
        "id": str,
        "state": str,
        "engine": str,
        "from": str,
        "to": str,
        "from_us": str,
        "limit": int,
        "owner": str,
        "progress": RuleReplayProgress,
        "error": NotRequired[JobError],
        "rule": NotRequired[ReplayedText],
        "compare": NotRequired[ReplayedText | None],
        "start": NotRequired[StartedRule],
        "result": NotRequired[RuleReplayResult],
    },
)
RuleReplayShown.__doc__ = """A replay of a rule.

Attributes:
    state: `running`, `finished`, `failed` or `cancelled`.
    from_us: Microseconds since the epoch, or `earliest`.
    start: Of the rule, where it was asked for.
    result: Where it is asked for, of one that has finished.
"""


_jobs: Final = jobs_of("rule_replay", at_once_max=2, kept_max=8)


@area.post(
    "/heliograph/rule_replays",
    scope="rules:write",
    status=201,
    answers=RuleReplayShown,
    errors={400: ("INVALID_PARAMETER",)},
)
async def begin_rule_replay(body: ReplayBody, request: Request, nodes: NodesDep, now_s: NowDep) -> dict[str, Any]:
    """Begin a replay; it runs in a process of its own, and reads from the storage reader, never from the broker."""
    caller: Caller = request.state.caller
    require(caller, "messages:read", "GET")
    since, until = _stretch(body, now_s)
    access = await reader_access(request, nodes)
    names = [name.strip() for name in (body.rule, body.compare) if name]
    settings = await nodes.own.ask(RULES_REPLAY_SETTINGS(ReplaySettingsWanted(names)))
    replays = _jobs(request)
    replays.check_room()
    order = {
        "engine": body.engine,
        "from": rfc3339(since) if since else _EARLIEST,
        "to": rfc3339(until),
        "from_us": str(since) if since else _EARLIEST,
        "limit": body.limit,
        "owner": caller.name,
    }
    owner = Owner(caller, still_may(request, "rules:write", "messages:read"))
    replay = RuleReplay(owner, order, body.seconds)
    replay.run(_request(body, settings, since, until, access), request.app.state.programs)
    replays.add(replay)
    await replay.begun()
    if replay.state == FAILED:
        await replays.remove(replay)
        field, message = replay.error.get("field"), replay.error["message"]
        raise wrong(field, message) if field else ApiError(400, "BAD_REQUEST", message)
    return replay.shown()


add_replay_routes(
    area,
    "rule_replay",
    _jobs,
    reads="rules:read",
    writes="rules:write",
    answers=RuleReplayShown,
    got="The state of a replay, and its `result` when it has finished.",
    ended="its process is gone when the answer comes",
)


@area.post(
    "/heliograph/rule_replays/{id}/start",
    scope="pipeline:write",
    status=202,
    answers=RuleReplayShown,
    errors={**MISSING, 409: ("CONFLICT",)},
)
async def start_replayed_rule(id: str, request: Request, nodes: NodesDep) -> dict[str, Any]:
    """Run a rule of the pipeline over all that was stored since the stretch began, into its sink.

    It is `heliograph pipeline backfill`, which starts Spark; `start` of the replay tells what becomes of it. A deleted
    replay ends it; the same one goes on with it when it is started again.
    """
    replay = found(_jobs, request, id)
    assert isinstance(replay, RuleReplay)
    why_not = replay.why_not_started()
    if why_not:
        raise ApiError(409, "CONFLICT", why_not)
    replay.start(nodes.own, still_may(request, "pipeline:write"))
    return replay.shown()


def _stretch(body: ReplayBody, now_s: float) -> tuple[int, int]:
    """The times of storing, in microseconds since the epoch; 0 for the earliest message."""
    since = 0 if body.since == _EARLIEST else read_time_us(body.since, "from")
    until = int(now_s * 1e6) if body.until == _NOW else read_time_us(body.until, "to")
    if since >= until:
        raise wrong("to", "the stretch is empty: it ends before it begins")
    return since, until


def _request(body: ReplayBody, settings: ReplaySettings, since: int, until: int, access: dict[str, str]) -> bytes:
    asked = {
        "rule": body.rule.strip(),
        "sql": body.sql,
        "compare": body.compare.strip(),
        "since": since,
        "until": until,
        "engine": body.engine,
        "rows_max": body.limit,
        "seconds_max": body.seconds,
        "database": body.database,
    }
    rule = msgspec.to_builtins(settings)
    return orjson.dumps({**rule, **access, **asked, "schemas": orjson.loads(settings.schemas)})
