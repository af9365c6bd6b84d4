"""A topic filter made ready for many topics: its levels for the learned structure, a regular expression for rows.

A regular expression, because Arrow's engine (RE2) and Python's `re` both take it: a column of topics is filtered
without a row being touched in Python. `heliograph.mqtt.topic.topic_matches` is the definition that it must agree with.
This is for reading; which messages are stored is decided in `node.storage_sink`.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from heliograph.mqtt.topic import topic_filter_fault
from heliograph.storage.errors import InvalidFilterError

_LEVELS_MAX: Final = 65_535  # the node limits levels; a filter over stored history need not be limited again
_LEVEL: Final = "[^/]*"
_FIRST_LEVEL: Final = "(?:[^$/][^/]*)?"  # wildcards do not match topics that begin with '$' [MQTT-4.7.2-1]
_EVERYTHING: Final = "(?:[^$](?s:.)*)?"


class TopicFilter:
    """A valid topic filter without a share prefix; `InvalidFilterError` names `database` if it is malformed."""

    def __init__(self, text: str, database: str = "") -> None:
        fault = topic_filter_fault(text, _LEVELS_MAX)
        if fault is not None:
            raise InvalidFilterError(fault, database=database)
        self.text = text
        self.levels = text.split("/")
        self.pattern = _pattern(self.levels)
        self._compiled: re.Pattern[str] | None = None  # compiled when a topic is compared: that is the dearest part

    @property
    def sought(self) -> str | Callable[[str], bool]:
        """The only topic that it matches, or, if it has wildcards, what says whether one is matched."""
        return self.text if "+" not in self.levels and self.levels[-1] != "#" else self.matches

    def matches(self, topic: str) -> bool:
        compiled = self._compiled
        if compiled is None:
            compiled = self._compiled = re.compile(self.pattern)
        return compiled.fullmatch(topic) is not None

    def __repr__(self) -> str:
        return f"TopicFilter({self.text!r})"


@lru_cache(maxsize=1024)
def topic_filter(text: str, database: str = "") -> TopicFilter:
    """The filter of this text, compiled once."""
    return TopicFilter(text, database)


def pattern_of_any(filters: Sequence[TopicFilter]) -> str:
    """A pattern for whole topics that one of the filters matches; valid for `re.fullmatch` and, anchored, for RE2."""
    return "^(?:" + "|".join(one.pattern for one in filters) + ")$"


def _pattern(levels: Sequence[str]) -> str:
    if levels == ["#"]:
        return _EVERYTHING
    parts: list[str] = []
    for position, level in enumerate(levels):
        if level == "#":  # also matches the parent level [MQTT-4.7.1-2]
            return "/".join(parts) + "(?:/(?s:.)*)?"
        if level == "+":
            parts.append(_FIRST_LEVEL if position == 0 else _LEVEL)
        else:
            parts.append(re.escape(level))
    return "/".join(parts)
