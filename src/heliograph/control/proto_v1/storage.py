"""Durable storage of a running node: what is asked of it, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact, Time
from heliograph.rpc.asks import ONE, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class DatabaseRow(msgspec.Struct, frozen=True):
    """A database of messages, or one of small records.

    Attributes:
        kind: `messages` or `state`.
        problem: Why it does not work; empty while it does.
        disk_bytes: What its files take; -1 where that cannot be known.
        shards: 0 for one of records, as are generations and streams.
        counts: By the names that metrics have below `storage`.
    """

    name: str
    kind: str
    is_open: bool
    problem: str
    path: str
    disk_bytes: int
    shards: int
    generations: int
    streams: int
    counts: dict[str, float]


class DatabaseWanted(Args, frozen=True):
    """One database of messages."""

    database: str = "messages"


class GenerationRow(msgspec.Struct, frozen=True):
    """A generation; times are microseconds since the epoch.

    Attributes:
        until: None while it is written.
        bytes: Of topics and payloads.
    """

    shard: int
    generation: int
    layout: str
    since: Time
    until: Annotated[int | None, Fact(time_us=1)]
    streams: int
    messages: int
    bytes: int


class StreamRow(msgspec.Struct, frozen=True):
    """A stream.

    Attributes:
        topics: What it has learned of its topics: levels that vary are `+`.
        messages: How many it holds.
        bytes: Of topics and payloads.
        last: When its newest message was stored, in microseconds since the epoch; None where it has none.
    """

    shard: int
    generation: int
    stream: str
    topics: str
    messages: int
    bytes: int
    last: Annotated[int | None, Fact("last_stored_at", time_us=1)]


class StorageSite(msgspec.Struct, frozen=True):
    """The site of a node: what its databases are known by.

    Attributes:
        id: 16 hexadecimal digits; empty where the node stores no messages.
    """

    id: str


class ReaderState(msgspec.Struct, frozen=True):
    """The storage reader; `pid` is None while it does not run."""

    is_enabled: Annotated[bool, Fact("enable")]
    pid: Annotated[int | None, Fact("is_running", answered=bool, unknown=False, answers=bool)]
    bind: str
    counts: dict[str, float]


DS_DATABASES = ListAsk("ds.databases", NoArgs, DatabaseRow, STATE)
DS_GENERATIONS = ListAsk("ds.generations", DatabaseWanted, GenerationRow, STATE)
DS_STREAMS = ListAsk("ds.streams", DatabaseWanted, StreamRow, STATE)
DS_SITE = Ask("ds.site", NoArgs, StorageSite, ONE)
DS_READER = Ask("ds.reader", NoArgs, ReaderState, ONE)
