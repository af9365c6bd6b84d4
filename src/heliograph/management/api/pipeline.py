"""The pipeline: its queries, how far behind they are, what they refused."""

import json
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Query
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.pipeline import (
    PIPELINE_DEAD_LETTERS,
    PIPELINE_LATE_ROWS,
    PIPELINE_PLAN,
    PIPELINE_REPLAY,
    PIPELINE_REPLAY_LATE_ROWS,
    PIPELINE_STATUS,
    DeadLettersWanted,
    LateReplayWanted,
    LateRowsWanted,
    PipelineLines,
    PipelineRule,
    PipelineStatus,
)
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.models import Body, Str
from heliograph.management.web.rows import ApiRow
from heliograph.rpc.asks import Question

area = Area("Pipeline", "What Spark does with stored messages; the dead letters of all actions.", scope="pipeline")

_OFF: Final = (404, "NOT_FOUND")
_REFUSED: Final = (400, "BAD_REQUEST")
_LETTERS_S: Final = 60.0
_SPARK_S: Final = 600.0


class LateReplayBody(Body):
    """Where late rows are to go: a table or a sink."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"table": "hourly_late"}]})

    table: Str = Field(default="", description="The name of a Parquet table, which has no other rows")
    sink: Str = Field(default="", description="In place of it, the name of a sink under `sinks` in the pipeline's file")
    view: Str = Field(default="", description="Those of this view; needed where several have late rows")


_PIPELINE: Final = ApiRow("PipelineObject", PipelineStatus)


class LetterCountObject(TypedDict):
    """Rows of a rule that were refused for a cause: `rule`, `required`, `sink` or `decode`.

    Attributes:
        action: `TYPE:NAME` where the rule is the query of an action.
        reason: Of the newest.
    """

    rule: str
    action: str | None
    cause: str
    waiting: int
    replayed: int
    newest: str | None
    reason: str


class DeadLetter(TypedDict):
    """A row that was refused, with its message where there is one.

    Attributes:
        action: `TYPE:NAME` where the rule is the query of an action.
        payload: Text where it is text, else hexadecimal.
        row: What the rule made, as JSON.
    """

    rule: str
    action: str | None
    cause: str
    reason: str
    refused_at: str
    replayed_at: str | None
    topic: str | None
    clientid: str | None
    stored_at: str | None
    payload: str | None
    row: str | None


class LateCountObject(TypedDict):
    """Late rows of one view of a query; the newest is of those that wait."""

    query: str
    view: str
    waiting: int
    replayed: int
    newest: str | None


class LateRow(TypedDict):
    """A row beyond the watermark, as JSON."""

    view: str
    event_time: str
    watermark: str
    row: str
    replayed_at: str | None


class ReplayedLetters(TypedDict):
    """Letters that were brought to their sink, their rows, and the letters that stay."""

    letters: int
    rows: int
    kept: int


class ReplayedLateRows(TypedDict):
    """Late rows that were brought to a place of their own, those that stay, and why."""

    target: str
    rows: int
    kept: int
    reason: str | None


class QueryPlan(TypedDict):
    """What a query makes of the last messages.

    Attributes:
        engine: `native`, `udf` or `Spark SQL`.
        columns: Name and type of each.
        rows: The first of them.
        reasons: Why its rule failed, the first few.
    """

    name: str
    engine: str
    source: str
    target: str
    guarantee: str
    columns: list[list[str]]
    messages: int
    failed: int
    refused: int
    rows_count: int
    rows: list[dict[str, Any]]
    reasons: list[str]


PipelineLine: TypeAlias = dict[str, Any]
"""What a program of the pipeline says."""


@area.get("/heliograph/pipeline", answers=_PIPELINE.one)
async def get_pipeline(nodes: NodesDep) -> dict[str, Any]:
    """The driver and its queries: state, lag, figures."""
    return _PIPELINE(await nodes.own.ask(PIPELINE_STATUS()))


@area.get("/heliograph/pipeline/dead_letters", answers=list[LetterCountObject], errors=MISSING)
async def count_dead_letters(nodes: NodesDep) -> list[PipelineLine]:
    """How many rows of each rule were refused, by cause."""
    return await _lines(nodes, PIPELINE_DEAD_LETTERS(DeadLettersWanted()), _LETTERS_S)


@area.get("/heliograph/pipeline/dead_letters/{rule}", answers=list[DeadLetter], errors=MISSING)
async def list_dead_letters(
    rule: str,
    nodes: NodesDep,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    replayed: Annotated[bool, Query(description="Those that were replayed, too")] = False,
) -> list[PipelineLine]:
    """The dead letters of a rule, or of an action by its id, the newest first."""
    return await _lines(nodes, PIPELINE_DEAD_LETTERS(DeadLettersWanted(rule, limit, replayed)), _LETTERS_S)


@area.get("/heliograph/pipeline/late_rows", answers=list[LateCountObject], errors=MISSING)
async def count_late_rows(nodes: NodesDep) -> list[PipelineLine]:
    """How many late rows of each query and view are kept: rows beyond the watermark."""
    return await _lines(nodes, PIPELINE_LATE_ROWS(LateRowsWanted()), _LETTERS_S)


@area.get("/heliograph/pipeline/late_rows/{query}", answers=list[LateRow], errors=MISSING)
async def list_late_rows(
    query: str,
    nodes: NodesDep,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
    replayed: Annotated[bool, Query(description="Those that were replayed, too")] = False,
) -> list[PipelineLine]:
    """The late rows of a query, the newest batches first."""
    return await _lines(nodes, PIPELINE_LATE_ROWS(LateRowsWanted(query, limit, with_replayed=replayed)), _LETTERS_S)


@area.post("/heliograph/pipeline/dead_letters/{rule}/replay", answers=ReplayedLetters, errors=MISSING)
async def replay_dead_letters(rule: str, nodes: NodesDep) -> PipelineLine:
    """Run the present text of a rule over its dead letters, and bring the rows to its sink; this starts Spark.

    The letters of an action without Spark (`rule` is its id) need neither Spark nor a pipeline.
    """
    return await _last_line(nodes, PIPELINE_REPLAY(PipelineRule(rule)))


@area.post("/heliograph/pipeline/late_rows/{query}/replay", answers=ReplayedLateRows, errors=MISSING)
async def replay_late_rows(query: str, body: LateReplayBody, nodes: NodesDep) -> PipelineLine:
    """Bring the late rows of a query, as they arrived, to a table or sink of their own; this starts Spark.

    They do not go to the sink of the query, whose results are final.
    """
    wanted = LateReplayWanted(query, body.table, body.sink, body.view)
    return await _last_line(nodes, PIPELINE_REPLAY_LATE_ROWS(wanted))


@area.post("/heliograph/pipeline/plan", answers=list[QueryPlan], errors=MISSING)
async def plan_pipeline(
    nodes: NodesDep,
    rule: Annotated[str, Query(description="This rule only")] = "",
    last: Annotated[int, Query(ge=1, le=1000, description="Messages of each view")] = 10,
) -> list[PipelineLine]:
    """Try each rule on the last stored messages; nothing is written. This starts Spark."""
    return await _lines(nodes, PIPELINE_PLAN(PipelineRule(rule, last)), _SPARK_S)


async def _lines(nodes: AskedNodes, question: Question[PipelineLines], timeout_s: float) -> list[PipelineLine]:
    with answering(not_enabled=_OFF, pipeline_command=_REFUSED):
        answer = await nodes.own.ask(question, timeout_s=timeout_s)
    return [json.loads(line) for line in answer.lines]


async def _last_line(nodes: AskedNodes, question: Question[PipelineLines]) -> PipelineLine:
    lines = await _lines(nodes, question, _SPARK_S)
    return lines[-1] if lines else {}
