"""The topics of rules: how their text is read, and what becomes of it for a client."""

from typing import Final

from heliograph.access.acl.actions import PUBLISHING
from heliograph.access.acl.index import EVERY_TOPIC, EXACT, WILDCARD, TopicEntry
from heliograph.access.templates.template import Template
from heliograph.access.templates.values import TOPIC_NAMES, Values

_EQ: Final = "eq "


class RuleTopic:
    """A topic of a rule.

    Args:
        text: The topic: a filter with placeholders, or `eq ` and a text that is compared as it is. None for all topics.
        is_equal: Whether the text is compared as it is, without `eq `.

    Attributes:
        has_places: Whether it depends on the client.
        unknown: Names in `${...}` that are no placeholders here, and stay as they are.
    """

    def __init__(self, text: str | None, is_equal: bool = False) -> None:
        if text is not None and not is_equal and text.startswith(_EQ):
            text, is_equal = text[len(_EQ) :], True
        self._text = text
        self._is_equal = is_equal
        self._has_rest = False
        self.has_places = False
        self.unknown: list[str] = []
        self._levels: list[Template | str | None] = []  # None is `+`
        if text is not None and not is_equal:
            self._read(text)

    def entry(self, at: int, actions: int, is_allowing: bool, values: Values) -> TopicEntry | None:
        """What it is for a client; None, which matches nothing, if that has no value for a placeholder."""
        if self._text is None:
            return TopicEntry(EVERY_TOPIC, at, actions, "", [], False)
        if self._is_equal:
            return TopicEntry(EXACT, at, actions, self._text, [], False)
        levels: list[str | None] = []
        for level in self._levels:
            if not isinstance(level, Template):
                levels.append(level)
                continue
            rendered = level.topic(values)
            if rendered is None:
                return None
            parts = rendered.split("/")
            levels += parts
            if is_allowing and ("+" in parts or "#" in parts):
                # A client that calls itself `#` would be allowed to subscribe to what others publish.
                actions &= PUBLISHING
        if self._has_rest or None in levels:
            return TopicEntry(WILDCARD, at, actions, "", levels, self._has_rest)
        return TopicEntry(EXACT, at, actions, "/".join(str(level) for level in levels), [], False)

    def _read(self, text: str) -> None:
        """Take the text apart into levels; `+` and `#` are wildcards only where they are all of a level of it."""
        parts = text.split("/")
        if parts[-1] == "#":
            self._has_rest = True
            parts.pop()
        for part in parts:
            template = Template(part, TOPIC_NAMES) if "${" in part else None
            if template is None:
                self._levels.append(None if part == "+" else part)
                continue
            self.unknown += template.unknown
            if template.names:
                self._levels.append(template)
                self.has_places = True
            else:
                self._levels.append(template.texts[0])

    def __repr__(self) -> str:
        return f"RuleTopic({self._text!r})"
