"""The pipeline beside a node: what is asked of it, and answers."""

from typing import Annotated

import msgspec
from typing_extensions import TypedDict

from heliograph.control.columns import Fact
from heliograph.rpc.asks import ACTS, STATE, Ask
from heliograph.rpc.methods import Args, NoArgs


class DriverFigures(TypedDict, total=False):
    """What the driver of the pipeline says of a query."""

    batches: int
    batch_ms: float
    last_batch_at: str | None
    rows_read: int
    rows_written: int
    rows_failed: int
    decode_failed: int
    rows_refused: int
    rows_late: int
    late_kept: int
    dead_letters: int
    restarts: int
    target: str
    guarantee: str
    sink_figures: dict[str, int]


class PipelineQuery(msgspec.Struct, frozen=True):
    """A query of the pipeline, as its driver wrote of it last.

    Attributes:
        lag: Messages that it has yet to read; None where that is not known.
        figures: All that the driver says.
    """

    name: str
    state: str
    lag: int | None
    last_error: Annotated[str, Fact(is_null_if_empty=True)]
    figures: Annotated[dict[str, object], Fact(answers=DriverFigures)]


class PipelineStatus(msgspec.Struct, frozen=True):
    """The pipeline.

    Attributes:
        is_enabled: Whether the node is to run one.
        pid: Of the driver; None while it does not run.
        restarts: How often it was started again.
        failures: How often it ended by itself.
        note: What is missing in the answer, and why; empty for nothing.
    """

    is_enabled: Annotated[bool, Fact("enable")]
    pid: Annotated[int | None, Fact("is_running", answered=bool, unknown=False, answers=bool)]
    file: str
    log_file: Annotated[str, Fact(is_shown=False)]
    restarts: int
    failures: int
    queries: list[PipelineQuery]
    note: Annotated[str, Fact("note")] = msgspec.field(name="told")


class DeadLettersWanted(Args, frozen=True):
    """Dead letters of the pipeline.

    Attributes:
        rule: Those of this rule, job or action (`TYPE:NAME`); empty for how many there are of each.
        limit: At the most, of one rule.
        with_replayed: Those that were replayed, too.
        path: The directory of their table below the output directory.
    """

    rule: str = ""
    limit: int = 20
    with_replayed: bool = False
    path: str = "dead_letters"


class LateRowsWanted(Args, frozen=True):
    """Late rows of the pipeline.

    Attributes:
        query: Those of this rule or job; empty for how many there are of each.
        limit: At the most, of one query.
        path: The directory of their table below the output directory.
        with_replayed: Those that were replayed, too.
    """

    query: str = ""
    limit: int = 20
    path: str = "late"
    with_replayed: bool = False


class LateReplayWanted(Args, frozen=True):
    """Late rows of the pipeline that are to go to a place of their own, a table or a sink.

    Attributes:
        query: Of this rule or job.
        table: The name of a Parquet table below the output directory; empty for a sink.
        sink: The name of a sink of the pipeline's file.
        view: Those of this view; empty for the only one that has any.
    """

    query: str
    table: str = ""
    sink: str = ""
    view: str = ""


class PipelineRule(Args, frozen=True):
    """One rule or job of the pipeline.

    Attributes:
        name: Its name, or `TYPE:NAME` of an action where dead letters are replayed; empty for all of them, where that
            makes sense.
        last: Of how many of the last messages a plan is made.
    """

    name: str
    last: int = 10


class BackfillWanted(Args, frozen=True):
    """A rule of the pipeline that is to be run over the past, into its sink.

    Attributes:
        since: `earliest`, or a time of storing in microseconds since the epoch.
    """

    rule: str
    since: str


class PipelineLines(msgspec.Struct, frozen=True):
    """What a command of the pipeline printed, lines of JSON."""

    lines: list[str]


PIPELINE_STATUS = Ask("pipeline.status", NoArgs, PipelineStatus, STATE)
PIPELINE_DEAD_LETTERS = Ask("pipeline.dead_letters", DeadLettersWanted, PipelineLines, STATE)
PIPELINE_LATE_ROWS = Ask("pipeline.late_rows", LateRowsWanted, PipelineLines, STATE)
PIPELINE_REPLAY = Ask("pipeline.replay", PipelineRule, PipelineLines, STATE, ACTS)
PIPELINE_REPLAY_LATE_ROWS = Ask("pipeline.replay_late_rows", LateReplayWanted, PipelineLines, STATE, ACTS)
PIPELINE_PLAN = Ask("pipeline.plan", PipelineRule, PipelineLines, STATE)
PIPELINE_BACKFILL = Ask("pipeline.backfill", BackfillWanted, PipelineLines, STATE, ACTS)
