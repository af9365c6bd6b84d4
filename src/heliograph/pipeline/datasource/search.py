"""Searches stored messages for another process: one JSON object on standard input, one on standard output.

`python -m heliograph.pipeline.datasource.search` is a process of its own for each search, which needs pyarrow and ends
with its answer, so that its caller needs neither. What it reads is bounded in rows, bytes and time.
"""

import base64
import heapq
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from heliograph.pipeline.datasource.client import SKIP, MessageSelection, StorageClient
from heliograph.pipeline.errors import PipelineError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLAN_BYTES: Final = 4 << 20
_ANSWER_BYTES: Final = 4 << 20  # of messages as they are shown, before more are read
_PLANS_MAX: Final = 1000
_LOOK_MAX: Final = 20_000  # rows of one plan that goes back
_LOOK_GROWS: Final = 4
_ALL_TOPICS: Final = ("#", "$pipeline/#")

Row = dict[str, Any]


def main() -> int:
    """Answer one request; 0, also where it is refused: the answer says why."""
    request = json.loads(sys.stdin.buffer.read())
    try:
        with StorageClient(request["endpoint"], token=request["token"] or None) as client:
            answer = _one(client, request) if "position" in request else _some(client, request)
    except PipelineError as error:
        answer = {"error": {"code": error.code, "message": str(error)}}
    json.dump(answer, sys.stdout, ensure_ascii=False, separators=(",", ":"))
    return 0


def _some(client: StorageClient, request: Mapping[str, Any]) -> Row:
    selection = MessageSelection(
        request["database"], (request["topic"],), request["start"], request["end"], SKIP, request["clientids"]
    )
    found = _newest if request["order"] == "newest" else _oldest
    return found(client, selection, request)


def _oldest(client: StorageClient, selection: MessageSelection, request: Mapping[str, Any]) -> Row:
    """Messages of a selection in the order in which they were stored, behind some positions."""
    until = time.monotonic() + request["seconds"]
    positions: dict[str, str] = request["positions"]
    rows: list[Row] = []
    size = remaining = 0
    for _ in range(_PLANS_MAX):
        left = request["limit"] - len(rows)
        plan = client.plan(selection, positions, messages_max=left, bytes_max=_PLAN_BYTES)
        found = [
            message_rows(client, selection, stream, positions.get(stream, ""), step.position, request["payload_bytes"])
            for stream, step in plan.streams.items()
            if step.messages
        ]
        read = list(heapq.merge(*found, key=lambda row: int(row["stored_at"])))
        rows += read
        size += sum(map(size_of, read))
        positions, remaining = plan.positions(), plan.messages_remaining
        is_full = len(rows) >= request["limit"] or size >= _ANSWER_BYTES
        if not plan.messages or is_full or time.monotonic() > until:
            break
    return {"rows": rows, "positions": positions, "remaining": remaining}


def _newest(client: StorageClient, selection: MessageSelection, request: Mapping[str, Any]) -> Row:
    """Messages of a selection, the last that was stored first; `before` is where those come that were stored earlier.

    Each plan looks at more rows than the one before, for few of them may be of the selection. What is found beyond the
    limit is left for the next page, but no commit is cut: the pages go on by its time.
    """
    deadline = time.monotonic() + request["seconds"]
    limit, before = request["limit"], selection.end
    look = 2 * limit
    rows: list[Row] = []
    size = 0
    for _ in range(_PLANS_MAX):
        plan = client.plan_newest(replace(selection, end=before), messages_max=look, bytes_max=_PLAN_BYTES)
        read = _newest_between(client, replace(selection, start=plan.since, end=plan.until), plan.streams, request)
        rows += read
        size += sum(map(size_of, read))
        before, remaining = plan.since, plan.messages_remaining
        is_full = len(rows) >= limit or size >= _ANSWER_BYTES
        if not remaining or is_full or time.monotonic() > deadline:
            break
        look = min(_LOOK_GROWS * look, _LOOK_MAX)
    kept = _whole_commits(rows, limit)
    if kept < len(rows):
        before, remaining = int(rows[kept - 1]["stored_at"]), remaining + len(rows) - kept
    return {"rows": rows[:kept], "before": before, "remaining": remaining}


def _newest_between(
    client: StorageClient, selection: MessageSelection, streams: Sequence[str], request: Mapping[str, Any]
) -> list[Row]:
    found = [message_rows(client, selection, stream, "", None, request["payload_bytes"]) for stream in streams]
    return list(heapq.merge(*found, key=lambda row: int(row["stored_at"])))[::-1]


def _whole_commits(rows: Sequence[Row], limit: int) -> int:
    """How many of some rows to give: so many as are wanted, and the rest of the last commit."""
    kept = min(limit, len(rows))
    while kept < len(rows) and rows[kept]["stored_at"] == rows[kept - 1]["stored_at"]:
        kept += 1
    return kept


def _one(client: StorageClient, request: Mapping[str, Any]) -> Row:
    """The message at a position."""
    stream, position = request["stream"], request["position"]
    stored_at = int(position.partition("-")[0])
    database = stream.partition("/")[0]
    selection = MessageSelection(database, _ALL_TOPICS, stored_at, stored_at + 1, SKIP)
    rows = message_rows(client, selection, stream, "", position, request["payload_bytes"])
    return {"rows": [row for row in rows if row["position"] == position]}


def message_rows(
    client: StorageClient, selection: MessageSelection, stream: str, position: str, to: str | None, payload_bytes: int
) -> Iterator[Row]:
    """The messages of one stream behind a position, up to another or all, ready for JSON; payloads are cut."""
    for batch in client.read(selection, stream, position, to):
        for row in batch.to_pylist():
            payload: bytes = row["payload"]
            shown = base64.b64encode(payload[:payload_bytes]).decode()
            times = {name: _microseconds(row[name]) for name in ("received_at", "stored_at")}
            properties = dict(row["properties"]) if row["properties"] is not None else None
            more = {"guid": row["guid"].hex(), "payload": shown, "payload_bytes": len(payload)}
            yield {**row, **times, **more, "properties": properties}


def size_of(row: Row) -> int:
    """How long a row is, about: what clients make long of it."""
    properties: dict[str, str] = row["properties"] or {}
    properties_length = sum(len(name) + len(text) for name, text in properties.items())
    return len(row["payload"]) + len(row["topic"]) + len(row["clientid"]) + properties_length


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


if __name__ == "__main__":
    sys.exit(main())
