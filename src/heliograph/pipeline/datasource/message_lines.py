"""Reads stored messages for another process, as lines of JSON: for exports and replays, which may be long.

`python -m heliograph.pipeline.datasource.message_lines` takes its request in the first line of standard input and ends
with that, or behind its last line. It reads a piece at a time and waits while its lines are not read, so what it holds
is bounded however much is asked for. A line has `rows` and the `share` of what is asked for that is read with them; the
last one has `end`, or the `error`.
"""

import heapq
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from heliograph.pipeline.datasource.client import SKIP, MessageSelection, StorageClient
from heliograph.pipeline.datasource.search import Row, message_rows, size_of
from heliograph.pipeline.errors import PipelineError

_PIECE_MESSAGES: Final = 2000
_PIECE_BYTES: Final = 4 << 20
_LINE_ROWS: Final = 100
_LINE_BYTES: Final = 128 << 10  # of a row's payload, topic and properties, before one more


def main() -> int:
    """Answer one request; 0, also where it is refused: the last line says why."""
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_input, name="stdin", daemon=True).start()
    try:
        with StorageClient(request["endpoint"], token=request["token"] or None) as client:
            for line in lines(client, request):
                _tell(line)
    except PipelineError as error:
        _tell({"error": {"code": error.code, "message": str(error)}})
    return 0


def lines(client: StorageClient, request: Mapping[str, Any]) -> Iterator[Row]:
    """The lines of a request: messages in the order in which they were stored, up to a limit."""
    topics, clientids = (request["topic"],), request["clientids"]
    selection = MessageSelection(request["database"], topics, request["start"], request["end"], SKIP, clientids)
    positions: dict[str, str] = {}
    left, done = request["limit"], 0
    while left > 0:
        plan = client.plan(selection, positions, messages_max=_PIECE_MESSAGES, bytes_max=_PIECE_BYTES)
        done += plan.messages
        share = done / max(1, done + plan.messages_remaining)
        found = [
            message_rows(client, selection, stream, positions.get(stream, ""), step.position, request["payload_bytes"])
            for stream, step in plan.streams.items()
            if step.messages
        ]
        for rows in _in_lines(heapq.merge(*found, key=lambda row: int(row["stored_at"])), left):
            left -= len(rows)
            yield {"rows": rows, "share": share}
        positions = plan.positions()
        if not plan.messages or not plan.messages_remaining:
            break
        yield {"rows": [], "share": share}
    yield {"end": {"is_whole": left > 0}}


def _in_lines(rows: Iterator[Row], limit: int) -> Iterator[list[Row]]:
    taken: list[Row] = []
    size = 0
    for _, row in zip(range(limit), rows, strict=False):
        taken.append(row)
        size += size_of(row)
        if len(taken) == _LINE_ROWS or size >= _LINE_BYTES:
            yield taken
            taken, size = [], 0
    if taken:
        yield taken


def _tell(line: Row) -> None:
    sys.stdout.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
