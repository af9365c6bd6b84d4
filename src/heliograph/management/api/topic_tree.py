"""The tree of topics, a page of one level at a time: what is stored, what was seen of many names, or what is routed."""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NotRequired

from fastapi import Depends, Query, Request
from typing_extensions import TypedDict

from heliograph.control.proto_v1.topic_tree import (
    TOPIC_TREE_ROUTED,
    TOPIC_TREE_STATE,
    TOPIC_TREE_STORED,
    RoutedLevelRow,
    RoutedLevelsWanted,
    StoredLevel,
    StoredLevelRow,
    StoredLevelsWanted,
)
from heliograph.management.web.answering import answering
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.paging import ROWS_BYTES, take_rows
from heliograph.management.web.reader_processes import SEEN_TOPICS, ask_reader
from heliograph.management.web.rows import ApiRow
from heliograph.management.web.times import rfc3339
from heliograph.mqtt.topic import has_wildcard, topic_filter_fault
from heliograph.rpc.methods import RpcError

area = Area("Topic tree", "Which topics there are, a level at a time.")

_RECENT_S: Final = 60
_LEVELS_MAX: Final = 65_536
_LIMIT_MAX: Final = 1000
_ANY: Final = "+"
_REST: Final = "#"
_CURSOR_MAX: Final = 100_000

_STORED: Final = ApiRow("StoredTopicLevel", StoredLevelRow)
_ROUTED: Final = ApiRow("RoutedTopicLevel", RoutedLevelRow)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LevelPage:
    """Which page of which level is wanted.

    Attributes:
        below: The topic above it as it was asked for; None for the first level.
        after: Only names behind this one; None for all.
    """

    below: str | None
    database: str
    limit: int
    after: str | None

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels above."""
        return () if self.below is None else tuple(self.below.split("/"))

    def path(self, name: str) -> str:
        """The topic that a name of this level stands for."""
        return name if self.below is None else f"{self.below}/{name}"


def _level_page(
    below: Annotated[
        str | None, Query(description="The levels above, as `a/b`; `+` for names that share a stream")
    ] = None,
    database: str = "messages",
    limit: Annotated[int, Query(ge=1, le=_LIMIT_MAX, description="Names of a page")] = 100,
    cursor: Annotated[
        str | None, Query(max_length=_CURSOR_MAX, description="`meta.cursor` of the answer before")
    ] = None,
) -> LevelPage:
    if below is not None and (fault := topic_filter_fault(below, _LEVELS_MAX)) is not None:
        raise ApiError(400, "BAD_REQUEST", f"below: {below[:200]!r} is no topic: {fault}")
    rows_max = ROWS_BYTES // (1 + len(below or ""))  # each row has the levels above too
    return LevelPage(below, database, min(limit, max(1, rows_max)), None if cursor is None else _name(cursor))


LevelPageDep = Annotated[LevelPage, Depends(_level_page)]
Source = Literal["auto", "stored", "seen", "routed"]


class TopicLevelObject(TypedDict):
    """A name at a level of topics.

    Attributes:
        topic: The whole topic, as a request for the names below gives it.
        kind: `name`; `many` for names that share streams; `rest` for topics that were not learned.
        is_topic: Whether it is a topic itself, not only a level above others.
        streams: Of durable storage.
        bytes: Stored.
        messages_per_second: Stored in the last `meta.rate_seconds`.
        topics: Topics below and at it.
        filters: Filters below and at it.
    """

    name: str
    topic: str
    kind: Literal["name", "many", "rest"]
    has_children: bool
    is_topic: bool
    streams: NotRequired[int]
    messages: NotRequired[int]
    bytes: NotRequired[int]
    last_stored_at: NotRequired[str | None]
    messages_per_second: NotRequired[float]
    topics: NotRequired[int]
    filters: NotRequired[int]
    subscriptions: NotRequired[int]


class TopicLevelMeta(TypedDict):
    """Where names come from, and which page it is.

    Attributes:
        source: `stored`, `seen` or `routed`.
        looked_at: Messages that were read.
        since: When the oldest of them was stored.
        is_partial: Whether there are more filters than were counted.
    """

    source: Literal["stored", "seen", "routed"]
    count: int
    limit: int
    hasnext: bool
    cursor: NotRequired[str]
    rate_seconds: NotRequired[int]
    looked_at: NotRequired[int]
    since: NotRequired[str | None]
    is_partial: NotRequired[bool]


class TopicLevels(TypedDict):
    """A page of names at a level."""

    data: list[TopicLevelObject]
    meta: TopicLevelMeta


@area.get("/heliograph/topic_tree", scope="messages:read", errors={404: ("NOT_FOUND",)})
async def list_topic_level(
    request: Request,
    nodes: NodesDep,
    page: LevelPageDep,
    search: Annotated[
        str, Query(max_length=1000, description="Topics that match this filter or, without wildcards, have this text")
    ] = "",
    source: Annotated[Source, Query(description="Where names come from; `auto` chooses")] = "auto",
) -> TopicLevels:
    """A page of the names at one level, in order; `meta.source` says where they come from.

    - `stored`: the topics that durable storage has learned, with exact sums. `+` stands for names that are too many to
      be learned, `#` for topics beyond what can be learned.
    - `seen`: names in the newest stored messages (`meta.looked_at` of them, stored since `meta.since`).
    - `routed`: levels of filters that have subscriptions; chosen where nothing is stored.

    `messages_per_second` counts the messages stored in the last `meta.rate_seconds`.
    """
    if search:
        return await _seen(request, nodes, page, search)
    if source == "auto":
        with answering():
            source = await _best_source(nodes, page)
    if source == "seen":
        return await _seen(request, nodes, page, "")
    return await (_stored(nodes, page) if source == "stored" else _routed(nodes, page))


async def _best_source(nodes: AskedNodes, page: LevelPage) -> Source:
    try:
        known = await nodes.own.ask(TOPIC_TREE_STATE(StoredLevel(page.database, page.levels)))
    except RpcError as error:
        if error.code != "not_found" or page.database != "messages":
            raise
        return "routed"  # no messages are stored at all
    if not known.has_messages:
        return "routed"
    return "seen" if known.is_shared else "stored"


async def _stored(nodes: AskedNodes, page: LevelPage) -> TopicLevels:
    wanted = StoredLevelsWanted(page.database, page.levels, page.after, page.limit + 1, _RECENT_S)
    with answering():
        rows, has_next = await take_rows(nodes.own.slices(TOPIC_TREE_STORED(wanted)), page.limit)
    found = [{**_STORED(row), **_named(page, row.name), "messages_per_second": _rate(row.recent)} for row in rows]
    return _answer(found, "stored", has_next, page, rate_seconds=_RECENT_S)


async def _seen(request: Request, nodes: AskedNodes, page: LevelPage, search: str) -> TopicLevels:
    topic = page.path("#")
    if search and has_wildcard(search):
        topic = search
        if (fault := topic_filter_fault(search, _LEVELS_MAX)) is not None:
            raise ApiError(400, "BAD_REQUEST", f"search: {search[:200]!r} is no topic filter: {fault}")
    asked = {
        "database": page.database,
        "topic": topic,
        "depth": None if search else len(page.levels),
        "search": "" if has_wildcard(search) else search,
        "after": page.after,
        "limit": page.limit,
        "recent_s": _RECENT_S,
    }
    answer = await ask_reader(request, nodes, SEEN_TOPICS, asked)
    rows = answer["rows"]
    found = [
        {
            "name": row["name"],
            "topic": row["name"] if search else page.path(row["name"]),
            "kind": "name",
            "has_children": row["has_children"],
            "is_topic": row["is_topic"],
            "topics": row["topics"],
            "messages": row["messages"],
            "last_stored_at": rfc3339(row["last"]),
            "messages_per_second": _rate(row["recent"]),
        }
        for row in rows
    ]
    since = None if answer["since"] is None else rfc3339(answer["since"])
    more = {"rate_seconds": _RECENT_S, "looked_at": answer["looked_at"], "since": since}
    return _answer(found, "seen", answer["more"], page, **more)


async def _routed(nodes: AskedNodes, page: LevelPage) -> TopicLevels:
    wanted = RoutedLevelsWanted(page.levels, page.after, page.limit + 1)
    rows, has_next = await take_rows(nodes.own.slices(TOPIC_TREE_ROUTED(wanted)), page.limit)
    found = [{**_ROUTED(row), **_named(page, row.name)} for row in rows]
    is_partial = any(row.is_partial for row in rows)
    return _answer(found, "routed", has_next, page, is_partial=is_partial)


def _named(page: LevelPage, name: str) -> Row:
    return {"topic": page.path(name), "kind": {_ANY: "many", _REST: "rest"}.get(name, "name")}


def _answer(rows: list[Any], source: str, has_next: bool, page: LevelPage, **more: object) -> TopicLevels:
    meta: Any = {"source": source, "count": len(rows), "limit": page.limit, "hasnext": has_next, **more}
    if has_next:
        meta["cursor"] = base64.urlsafe_b64encode(rows[-1]["name"].encode()).decode()
    return {"data": rows, "meta": meta}


def _rate(recent: int) -> float:
    return round(recent / _RECENT_S, 3)


def _name(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise ApiError(400, "BAD_REQUEST", "the cursor is not one of this list") from None
