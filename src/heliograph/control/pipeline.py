"""What can be asked of the pipeline that a node runs beside itself."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from heliograph.control.proto_v1 import pipeline as proto
from heliograph.rpc.methods import Call, Method, NoArgs


class AskedPipeline(Protocol):
    """The pipeline process; `node.pipeline` implements it."""

    log_file: Path

    @property
    def pid(self) -> int | None:
        """Its process; None while it does not run."""

    @property
    def file(self) -> str: ...

    @property
    def status_file(self) -> Path:
        """Where its driver writes what its queries do."""

    def statistics(self) -> Mapping[str, int]: ...


class AskedPipelineTools(Protocol):
    """Commands about the pipeline, each in a process of its own; `node.pipeline_tools` implements it."""

    async def dead_letters(self, args: proto.DeadLettersWanted) -> list[str]:
        """Dead letters as lines of JSON."""

    async def late_rows(self, args: proto.LateRowsWanted) -> list[str]:
        """Late rows as lines of JSON."""

    async def replay(self, rule: str) -> list[str]:
        """Bring the dead letters of a rule or action to its sink."""

    async def replay_late_rows(self, args: proto.LateReplayWanted) -> list[str]:
        """Bring the late rows of a query to a place of their own."""

    async def plan(self, rule: str, last: int) -> list[str]:
        """What rules make of the last messages."""

    async def backfill(self, rule: str, since: str) -> list[str]:
        """Run a rule over what was stored since a time, into its sink."""


def methods(process: Callable[[], AskedPipeline | None], tools: AskedPipelineTools) -> list[Method]:
    """What can be asked: `pipeline.*`.

    Args:
        process: The pipeline now; None where the node runs none.
        tools: Commands about it; those that need one raise `RpcError` where the node runs none.
    """
    answers = PipelineAnswers(process)

    async def letters(args: proto.DeadLettersWanted, call: Call) -> proto.PipelineLines:
        return proto.PipelineLines(await tools.dead_letters(args))

    async def late_rows(args: proto.LateRowsWanted, call: Call) -> proto.PipelineLines:
        return proto.PipelineLines(await tools.late_rows(args))

    async def replay(args: proto.PipelineRule, call: Call) -> proto.PipelineLines:
        return proto.PipelineLines(await tools.replay(args.name))

    async def replay_late_rows(args: proto.LateReplayWanted, call: Call) -> proto.PipelineLines:
        return proto.PipelineLines(await tools.replay_late_rows(args))

    async def plan(args: proto.PipelineRule, call: Call) -> proto.PipelineLines:
        return proto.PipelineLines(await tools.plan(args.name, args.last))

    async def backfill(args: proto.BackfillWanted, call: Call) -> proto.PipelineLines:
        return proto.PipelineLines(await tools.backfill(args.rule, args.since))

    return [
        proto.PIPELINE_STATUS.by(answers.status),
        proto.PIPELINE_DEAD_LETTERS.by(letters),
        proto.PIPELINE_LATE_ROWS.by(late_rows),
        proto.PIPELINE_REPLAY.by(replay),
        proto.PIPELINE_REPLAY_LATE_ROWS.by(replay_late_rows),
        proto.PIPELINE_PLAN.by(plan),
        proto.PIPELINE_BACKFILL.by(backfill),
    ]


class PipelineAnswers:
    """Answers what is asked of the pipeline; owned by the control socket.

    Args:
        process: The pipeline now; None where the node runs none.
    """

    def __init__(self, process: Callable[[], AskedPipeline | None]) -> None:
        self._process = process

    async def status(self, args: NoArgs, call: Call) -> proto.PipelineStatus:
        process = self._process()
        if process is None:
            return proto.PipelineStatus(False, None, "", "", 0, 0, [], "this node runs no pipeline (pipeline.enable)")
        counts = process.statistics()
        pid = process.pid
        queries, note = await asyncio.to_thread(_queries, process.status_file, pid)
        return proto.PipelineStatus(
            True,
            pid,
            process.file,
            str(process.log_file),
            counts["pipeline.restarts"],
            counts["pipeline.failures"],
            queries,
            note,
        )


def _queries(path: Path, pid: int | None) -> tuple[list[proto.PipelineQuery], str]:
    """What the driver wrote last, and what is to be said of it; called in a thread."""
    try:
        document = json.loads(path.read_bytes())
        found = [_query(one) for one in document["queries"]]
    except FileNotFoundError:
        return [], "its driver has not reported its queries yet"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [], f"{path} cannot be read: {error}"
    if document.get("pid") != pid:
        return found, "these are the figures of an earlier driver; the present one has not reported any yet"
    return found, str(document.get("reload_error") or "")


def _query(one: Mapping[str, object]) -> proto.PipelineQuery:
    lag = one.get("lag")
    return proto.PipelineQuery(
        str(one["name"]),
        str(one["state"]),
        lag if isinstance(lag, int) else None,
        str(one.get("last_error") or ""),
        dict(one),
    )
