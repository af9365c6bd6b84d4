"""Templates of topics: `${clientid}` and the like, and the groups `$1`, `$2` of a regular expression."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from heliograph.mqtt.template import split_template
from heliograph.mqtt.topic import MAX_TOPIC_BYTES

_NAME: Final = re.compile(r"[a-z]+|client_attrs\.[0-9A-Za-z_-]+")
_GROUP: Final = re.compile(r"\$([0-9]+)")


class TopicTemplate:
    """A text whose places are filled in one pass: what is filled in is never looked at again.

    Args:
        text: The text; what looks like a place and is not known stays as it is.
        names: The names that `${...}` may hold; `client_attrs` stands for all of `${client_attrs.NAME}`.
    """

    def __init__(self, text: str, names: Sequence[str], groups: int = 0) -> None:
        self._parts: list[str | int] = []  # texts at even, names or numbers of groups at odd positions

        def is_known(name: str) -> bool:
            return _NAME.fullmatch(name) is not None and name.partition(".")[0] in names

        for before, name in split_template(text, is_known):
            rest = self._split_at_groups(before, groups)
            if name is None:
                self._tail = rest
            else:
                self._add(rest, name)

    def fill(self, values: Mapping[str, str | None], groups: Sequence[str | None] = ()) -> str | None:
        """The topic, or None if a client has no value for a place, or one that would be a wildcard.

        A client that calls itself `#` must not get all messages.
        """
        pieces: list[str] = []
        for at, part in enumerate(self._parts):
            if at % 2 == 0:
                pieces.append(str(part))
            elif isinstance(part, int):
                pieces.append(groups[part - 1] or "")
            else:
                value = values.get(part)
                if not value or "+" in value or "#" in value:
                    return None
                pieces.append(value)
        pieces.append(self._tail)
        return "".join(pieces)

    def _split_at_groups(self, text: str, groups: int) -> str:
        """Take the groups out of a text; returns the rest after the last."""
        at = 0
        for match in _GROUP.finditer(text):
            number, length = _group_of(match[1], groups)
            if length:
                self._add(text[at : match.start()], number)
                at = match.start() + 1 + length
        return text[at:]

    def _add(self, text: str, place: str | int) -> None:
        self._parts.append(text)
        self._parts.append(place)


def _group_of(digits: str, groups: int) -> tuple[int, int]:
    """The group that digits name, and how many of them: `$12` is group 1 and a 2 where there is no group 12."""
    for length in range(min(len(digits), 4), 0, -1):
        if 1 <= int(digits[:length]) <= groups:
            return int(digits[:length]), length
    return 0, 0


def topic_fault(topic: str, fault: str | None) -> str | None:
    """`fault`, or that a topic that was filled in has too many bytes for a packet."""
    if (
        fault is None
        and len(topic) > MAX_TOPIC_BYTES // 4
        and len(topic.encode("utf-8", "surrogatepass")) > MAX_TOPIC_BYTES
    ):
        return f"it has more than {MAX_TOPIC_BYTES} bytes"
    return fault
