"""What the filters of a query say about where its rows lie, so that a narrow query reads narrowly.

Spark hands over the conditions of a `where` that are simple and joined by "and". Those on topic, time of storing,
client id and shard say which streams and blocks can have rows at all. Nothing is left to chance by that: Spark looks at
every row again, except where the reader decides exactly as Spark would.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from heliograph.mqtt.topic import topic_filter_fault
from heliograph.pipeline.datasource.client import MessageSelection

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_LEVELS_MAX: Final = 65_535
#: Spark asks this of every column that a condition names.
_NEVER_NULL: Final = ("topic", "stored_at", "clientid", "shard")
#: Values of one `IN` that are worth a topic filter or client id each; of more, Spark's own filter is quick enough.
_VALUES_MAX: Final = 256


@dataclass(frozen=True)
class Narrowed:
    """A selection narrowed to what can have rows, None if nothing can, and the filters that are left to Spark."""

    selection: MessageSelection | None
    left: tuple[Filter, ...]


def narrow(selection: MessageSelection, filters: Iterable[Filter]) -> Narrowed:
    """Narrow a selection to where the rows of some filters lie."""
    found: MessageSelection | None = selection
    left: list[Filter] = []
    for one in filters:
        column: tuple[str, ...] = getattr(one, "attribute", ())
        is_exact = False
        if found is not None and len(column) == 1:
            found, is_exact = _narrowed(found, column[0], one)
        if not is_exact:
            left.append(one)
    return Narrowed(found, tuple(left))


def _narrowed(selection: MessageSelection, column: str, one: Filter) -> tuple[MessageSelection | None, bool]:
    """The selection with one filter more, and whether it takes exactly the rows that the filter takes."""
    if isinstance(one, IsNotNull):
        return selection, column in _NEVER_NULL
    if column == "stored_at":
        return _within(selection, one)
    values = _values(one)
    if column == "topic" and isinstance(one, StringStartsWith):
        prefix = _filter_of_prefix(one.value)
        return (selection if prefix is None else _with_topics(selection, [prefix])), False
    if values is None or len(values) > _VALUES_MAX:
        return selection, False
    if column == "topic":
        texts = [value for value in values if isinstance(value, str) and _is_topic(value)]
        return _with_topics(selection, texts), True
    if column == "clientid":
        clientids = tuple(value for value in values if isinstance(value, str))
        if selection.clientids is not None:
            clientids = tuple(value for value in clientids if value in selection.clientids)
        return (replace(selection, clientids=clientids) if clientids else None), True
    if column == "shard":
        shards = tuple(value for value in values if type(value) is int)
        if selection.shards is not None:
            shards = tuple(value for value in shards if value in selection.shards)
        return (replace(selection, shards=shards) if shards else None), True
    return selection, False


def _values(one: Filter) -> Sequence[object] | None:
    if isinstance(one, EqualTo | EqualNullSafe):
        return None if one.value is None else [one.value]
    if isinstance(one, In):
        return [value for value in one.value if value is not None]
    return None


def _is_topic(value: str) -> bool:
    """Whether a text can be the topic of a message; as a filter it then takes that topic alone."""
    return "+" not in value and "#" not in value and topic_filter_fault(value, _LEVELS_MAX) is None


def _filter_of_prefix(prefix: str) -> str | None:
    """A topic filter that takes all topics with a prefix, and others; None if the prefix has no whole level."""
    levels = prefix.split("/")[:-1]
    return "/".join([*levels, "#"]) if levels and _is_topic("/".join([*levels, ""])) else None


def _with_topics(selection: MessageSelection, filters: Sequence[str]) -> MessageSelection | None:
    """The selection with only those topics that one of some filters takes as well."""
    topics: list[str] = []
    for mine in selection.topics:
        for theirs in filters:
            both = intersection(mine, theirs)
            if both is not None and both not in topics:
                topics.append(both)
    return replace(selection, topics=tuple(topics)) if topics else None


def intersection(one: str, other: str) -> str | None:
    """The topic filter that takes the topics which two filters both take; None if there are none.

    Wildcards at the first level take no topics that begin with `$` [MQTT-4.7.2-1].
    """
    mine, theirs = one.split("/"), other.split("/")
    if _hides(mine[0], theirs[0]) or _hides(theirs[0], mine[0]):
        return None
    levels: list[str] = []
    for index in range(max(len(mine), len(theirs))):
        if index >= len(mine):
            return _ended(levels, theirs[index:])
        if index >= len(theirs):
            return _ended(levels, mine[index:])
        left, right = mine[index], theirs[index]
        if left == "#":
            return "/".join([*levels, *theirs[index:]])
        if right == "#":
            return "/".join([*levels, *mine[index:]])
        if left != right and "+" not in (left, right):
            return None
        levels.append(right if left == "+" else left)
    return "/".join(levels)


def _hides(wildcard: str, level: str) -> bool:
    return wildcard in ("+", "#") and level.startswith("$")


def _ended(levels: Sequence[str], rest: Sequence[str]) -> str | None:
    """One filter has ended; the other goes on, which takes the same topics only if it is a `#` [MQTT-4.7.1-2]."""
    return "/".join(levels) if list(rest) == ["#"] else None


def _within(selection: MessageSelection, one: Filter) -> tuple[MessageSelection | None, bool]:
    """The selection within a bound of the time of storing."""
    value = getattr(one, "value", None)
    if not isinstance(value, datetime):
        return selection, False
    time = _microseconds(value)
    start: int | None = None
    end: int | None = None
    if isinstance(one, EqualTo | EqualNullSafe):
        start, end = time, time + 1
    elif isinstance(one, GreaterThan | GreaterThanOrEqual):
        start = time + isinstance(one, GreaterThan)
    elif isinstance(one, LessThan | LessThanOrEqual):
        end = time + isinstance(one, LessThanOrEqual)
    else:
        return selection, False
    start = max((bound for bound in (selection.start, start) if bound is not None), default=None)
    end = min((bound for bound in (selection.end, end) if bound is not None), default=None)
    if end is not None and end <= max(0, start or 0):
        return None, True
    return replace(selection, start=None if start is None else max(0, start), end=end), True


def _microseconds(time: datetime) -> int:
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
