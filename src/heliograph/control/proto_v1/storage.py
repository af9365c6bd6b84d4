"""Durable storage of a running node: what is asked of it, and answers."""

import msgspec

from heliograph.rpc.methods import Args


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
    since: int
    until: int | None
    streams: int
    messages: int
    bytes: int


class ReaderState(msgspec.Struct, frozen=True):
    """The storage reader; `pid` is None while it does not run."""

    is_enabled: bool
    pid: int | None
    bind: str
    counts: dict[str, float]
