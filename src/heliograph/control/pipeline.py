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
    def file(self) -> str:
        """Its pipeline file."""

    @property
    def status_file(self) -> Path:
        """Where its driver writes what its queries do."""

    def statistics(self) -> Mapping[str, int]:
        """Its counts."""


def methods(process: Callable[[], AskedPipeline | None]) -> list[Method]:
    """What can be asked: `pipeline.status`.

    Args:
        process: The pipeline now; None where the node runs none.
    """
    answers = PipelineAnswers(process)
    return [Method("pipeline.status", NoArgs, answers.status)]


class PipelineAnswers:
    """Answers what is asked of the pipeline; owned by the control socket.

    Args:
        process: The pipeline now; None where the node runs none.
    """

    def __init__(self, process: Callable[[], AskedPipeline | None]) -> None:
        self._process = process

    async def status(self, args: NoArgs, call: Call) -> proto.PipelineStatus:
        """Answer `pipeline.status`: the driver and its queries."""
        process = self._process()
        if process is None:
            return proto.PipelineStatus(False, None, "", "", 0, 0, [], "this node runs no pipeline (pipeline.enable)")
        counts = process.statistics()
        pid = process.pid
        queries, told = await asyncio.to_thread(_queries, process.status_file, pid)
        return proto.PipelineStatus(
            True,
            pid,
            process.file,
            str(process.log_file),
            counts["pipeline.restarts"],
            counts["pipeline.failures"],
            queries,
            told,
        )


def _queries(path: Path, pid: int | None) -> tuple[list[proto.PipelineQuery], str]:
    """What the driver wrote last, and what is to be said of it; called in a thread."""
    try:
        document = json.loads(path.read_bytes())
        found = [_query(one) for one in document["queries"]]
    except FileNotFoundError:
        return [], "its driver has not told anything of its queries yet"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [], f"{path} cannot be read: {error}"
    if document.get("pid") != pid:
        return found, "these are the figures of an earlier driver; the present one has not told any yet"
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
