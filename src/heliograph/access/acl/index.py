"""Finds the first rule that has a topic: exact topics in a dictionary, those with wildcards by their first level.

A subscription's filter is looked for like a topic, level by level: `a/#` covers `a/+`, `+` covers `+` but not `#`.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.actions import ACTIONS_COUNT

NO_RULE: Final = 1 << 60
"""The place of a rule that is not there: behind all others."""

EVERY_TOPIC: Final = 0
EXACT: Final = 1
WILDCARD: Final = 2


class TopicEntry:
    """A topic of a rule, for one client.

    Args:
        kind: `EVERY_TOPIC` (those with `$` too), `EXACT` or `WILDCARD`.
        at: The place of its rule among the rules.
        actions: A bit for each action that the rule is about, by its number.
        levels: The levels of one with wildcards, without a `#` at the end; None for `+`.
        has_rest: Whether `#` follows them.
    """

    def __init__(self, kind: i64, at: i64, actions: i64, topic: str, levels: list[str | None], has_rest: bool) -> None:
        self.kind: i64 = kind
        self.at: i64 = at
        self.actions: i64 = actions
        self.topic = topic
        self.levels = levels
        self.has_rest = has_rest

    def matches(self, asked: list[str]) -> bool:
        """`asked` are its levels; not called for wildcards before a `$`."""
        levels = self.levels
        count: i64 = len(levels)
        asked_count: i64 = len(asked)
        if asked_count < count or (asked_count > count and not self.has_rest):
            return False
        for at in range(count):
            level = levels[at]
            if level is None:
                if asked[at] == "#":
                    return False
            elif level != asked[at]:
                return False
        return True


class RuleIndex:
    """The topics of one action; made of its entries, in the order of their rules, and not changed after that."""

    def __init__(self, entries: list[TopicEntry]) -> None:
        self._every: i64 = NO_RULE
        self._exact: dict[str, i64] = {}
        self._first_wildcard: i64 = NO_RULE
        self._by_level: dict[str, list[TopicEntry]] = {}
        self._any_level: list[TopicEntry] = []
        for entry in entries:
            if entry.kind == EVERY_TOPIC:
                self._every = min(self._every, entry.at)
            elif entry.kind == EXACT:
                self._exact.setdefault(entry.topic, entry.at)
            else:
                self._add(entry)

    def find(self, topic: str) -> i64:
        """The place of the first rule that has a topic or covers a filter, or `NO_RULE`."""
        found: i64 = self._exact.get(topic, NO_RULE)
        if self._every < found:
            found = self._every
        if self._first_wildcard > found:
            return found
        levels = topic.split("/")
        entries = self._by_level.get(levels[0])
        if entries is not None:
            found = _first(entries, levels, found)
        if self._any_level and not topic.startswith("$"):  # [MQTT-4.7.2-1]
            found = _first(self._any_level, levels, found)
        return found

    def _add(self, entry: TopicEntry) -> None:
        self._first_wildcard = min(self._first_wildcard, entry.at)
        first = entry.levels[0] if entry.levels else None
        if first is None:
            self._any_level.append(entry)
        else:
            self._by_level.setdefault(first, []).append(entry)


class ActionIndexes:
    """The indexes of all actions over the same entries; each is made when it is first needed."""

    def __init__(self, entries: list[TopicEntry]) -> None:
        self._entries = entries
        self._indexes: list[RuleIndex | None] = [None] * ACTIONS_COUNT

    def find(self, number: i64, topic: str) -> i64:
        index = self._indexes[number]
        if index is None:
            index = self._make(number)
        return index.find(topic)

    def _make(self, number: i64) -> RuleIndex:
        index = RuleIndex([entry for entry in self._entries if entry.actions >> number & 1])
        for other in range(ACTIONS_COUNT):
            if self._is_alike(number, other):
                self._indexes[other] = index
        return index

    def _is_alike(self, number: i64, other: i64) -> bool:
        return all((entry.actions >> number & 1) == (entry.actions >> other & 1) for entry in self._entries)


def _first(entries: list[TopicEntry], levels: list[str], found: i64) -> i64:
    for entry in entries:
        if entry.at >= found:
            return found
        if entry.matches(levels):
            return entry.at
    return found
