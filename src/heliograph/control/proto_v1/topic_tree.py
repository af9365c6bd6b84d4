"""The tree of topics, a level at a time: what is asked of it, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact
from heliograph.rpc.asks import LISTED, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args


class StoredLevelsWanted(Args, frozen=True):
    """A page of one level of the topics that a database has learned.

    Attributes:
        below: The levels above it, as they were learned; empty for the first level.
        after: Only names behind this one; None for all.
        recent_s: Messages of so many seconds count as recent.
    """

    database: str = "messages"
    below: tuple[str, ...] = ()
    after: str | None = None
    limit: int = 100
    recent_s: int = 60


class StoredLevelRow(msgspec.Struct, frozen=True):
    """A name at a level, with the sums over all topics that end there or below.

    Attributes:
        name: `+` stands for names that are too many to be learned, `#` for topics that there was no room to learn.
        is_topic: Whether topics end there.
        bytes: Of topics and payloads.
        last: When the newest message was stored, in microseconds since the epoch; None where there is none.
        recent: Messages of the last seconds.
    """

    name: str
    is_topic: bool
    has_children: bool
    streams: int
    messages: int
    bytes: int
    last: Annotated[int | None, Fact("last_stored_at", time_us=1)]
    recent: Annotated[int, Fact(is_shown=False)]


class StoredLevel(Args, frozen=True):
    """One level of the topics that a database has learned, by the levels above it."""

    database: str = "messages"
    below: tuple[str, ...] = ()


class StoredLevelState(msgspec.Struct, frozen=True):
    """What is known of a level.

    Attributes:
        is_shared: Whether it stands for many names that share a stream: `+` has the sums over all of them.
        has_messages: Whether the database has any.
    """

    is_shared: bool
    has_messages: bool


class RoutedLevelsWanted(Args, frozen=True):
    """A page of one level of the filters that have subscriptions.

    Attributes:
        after: Only names behind this one; None for all.
    """

    below: tuple[str, ...] = ()
    after: str | None = None
    limit: int = 100


class RoutedLevelRow(msgspec.Struct, frozen=True):
    """A name at a level of filters, which may be a wildcard.

    Attributes:
        is_filter: Whether a filter ends there.
        filters: Filters that end there or below.
        subscriptions: Theirs; a shared group counts as one.
        is_partial: Whether there were too many filters to look at all.
    """

    name: str
    is_filter: Annotated[bool, Fact("is_topic")]
    has_children: bool
    filters: int
    subscriptions: int
    is_partial: Annotated[bool, Fact(is_shown=False)]


TOPIC_TREE_STORED = ListAsk("topic_tree.stored", StoredLevelsWanted, StoredLevelRow, STATE)
TOPIC_TREE_STATE = Ask("topic_tree.state", StoredLevel, StoredLevelState, STATE)
TOPIC_TREE_ROUTED = ListAsk("topic_tree.routed", RoutedLevelsWanted, RoutedLevelRow, LISTED)
