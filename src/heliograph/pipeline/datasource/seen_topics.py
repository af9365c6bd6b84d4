"""Finds the topics among the newest stored messages for another process: names at one level, or topics with a text.

`python -m heliograph.pipeline.datasource.seen_topics` takes one JSON object on standard input and gives one on standard
output, as `search` does. The storage knows topics only as far as it has learned them: where names are many, they stand
in the messages alone. So it looks at the newest ones, at as many as it may read.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from heliograph.pipeline.datasource.client import SKIP, MessageSelection, StorageClient
from heliograph.pipeline.errors import PipelineError

_MESSAGES_MAX: Final = 200_000
_BYTES_MAX: Final = 64 << 20  # of topics and payloads, as they are stored
_ANSWER_CHARACTERS: Final = 4 << 20  # of names, before one more
_COLUMNS: Final = ("topic", "stored_at")
_SECOND_US: Final = 1_000_000


@dataclass(slots=True)
class Seen:
    """What was seen of a topic, or of all topics of one name at a level."""

    topics: int = 0
    messages: int = 0
    recent: int = 0
    last: int = 0
    is_topic: bool = False
    has_children: bool = False

    def add(self, messages: int, recent: int, last: int) -> None:
        """So much was seen of one more topic."""
        self.topics += 1
        self.messages += messages
        self.recent += recent
        self.last = max(self.last, last)


def main() -> int:
    """Answer one request; 0, also where it is refused: the answer says why."""
    request = json.loads(sys.stdin.buffer.read())
    try:
        with StorageClient(request["endpoint"], token=request["token"] or None) as client:
            answer = _answer(client, request)
    except PipelineError as error:
        answer = {"error": {"code": error.code, "message": str(error)}}
    json.dump(answer, sys.stdout, ensure_ascii=False, separators=(",", ":"))
    return 0


def _answer(client: StorageClient, request: Mapping[str, Any]) -> dict[str, Any]:
    now = time.time_ns() // 1000
    selection = MessageSelection(request["database"], (request["topic"],), on_damage=SKIP)
    plan = client.plan_newest(selection, messages_max=_MESSAGES_MAX, bytes_max=_BYTES_MAX)
    newest = replace(selection, start=plan.since, end=plan.until)
    recent_since = now - request["recent_s"] * _SECOND_US
    topics: dict[str, Seen] = {}
    for stream in plan.streams:
        for batch in client.read(newest, stream, columns=_COLUMNS):
            _count(batch, recent_since, topics)
    depth: int | None = request["depth"]
    found = _with_text(topics, request["search"]) if depth is None else _at_level(topics, depth)
    after, limit = request["after"], request["limit"]
    names = sorted(name for name in found if after is None or name > after)
    shown = _first(names, limit)
    return {
        "rows": [_row(name, found[name]) for name in shown],
        "more": len(names) > len(shown),
        "looked_at": sum(one.messages for one in topics.values()),
        "since": plan.since if plan.messages_remaining else None,
    }


def _first(names: Sequence[str], limit: int) -> list[str]:
    """So many names, or fewer where they are long."""
    taken: list[str] = []
    characters = 0
    for name in names[:limit]:
        if characters >= _ANSWER_CHARACTERS:
            break
        taken.append(name)
        characters += len(name)
    return taken


def _count(batch: pa.RecordBatch, recent_since: int, topics: dict[str, Seen]) -> None:
    stored_at = pc.cast(batch.column("stored_at"), pa.int64())
    is_recent = pc.cast(pc.greater_equal(stored_at, recent_since), pa.int64())
    table = pa.table({"topic": batch.column("topic"), "at": stored_at, "recent": is_recent})
    sums = table.group_by("topic").aggregate([("at", "count"), ("at", "max"), ("recent", "sum")])
    for row in sums.to_pylist():
        seen = topics.setdefault(row["topic"], Seen())
        seen.topics = 0
        seen.add(row["at_count"], row["recent_sum"], row["at_max"])


def _at_level(topics: Mapping[str, Seen], depth: int) -> dict[str, Seen]:
    """The names behind so many levels."""
    found: dict[str, Seen] = {}
    for topic, seen in topics.items():
        levels = topic.split("/", depth + 1)
        if len(levels) <= depth:
            continue
        level = found.setdefault(levels[depth], Seen())
        level.add(seen.messages, seen.recent, seen.last)
        level.is_topic = level.is_topic or len(levels) == depth + 1
        level.has_children = level.has_children or len(levels) > depth + 1
    return found


def _with_text(topics: Mapping[str, Seen], text: str) -> dict[str, Seen]:
    """The topics that have a text in them, whatever the case of its letters."""
    return dict(_matching(topics, text.casefold()))


def _matching(topics: Mapping[str, Seen], text: str) -> Iterator[tuple[str, Seen]]:
    for topic, seen in topics.items():
        if text in topic.casefold():
            seen.is_topic = True
            yield topic, seen


def _row(name: str, seen: Seen) -> dict[str, Any]:
    return {
        "name": name,
        "is_topic": seen.is_topic,
        "has_children": seen.has_children,
        "topics": seen.topics,
        "messages": seen.messages,
        "recent": seen.recent,
        "last": seen.last,
    }


if __name__ == "__main__":
    sys.exit(main())
