"""What users may read: rules that the node has made of their rights, which change while the reader runs.

A topic may be read if the user may subscribe to it. The first rule with a filter that matches decides; without one it
may not be read. While the rights of a user are not known nothing is answered: a reader that got a part of the messages
would take them for all.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

from heliograph.mqtt.topic import topic_matches
from heliograph.storage.errors import StorageError
from heliograph.storage.reader.security import ForbiddenError

RIGHTS: Final = "rights "
"""What a line of the node begins with that holds the rights of all users."""

Rights = tuple[tuple[bool, str | None], ...]
"""Rules in their order: whether one allows, and its topic filter; None for every topic, those with `$` too."""


class RightsUnknownError(StorageError):
    """A request by a token of a user whose rights are not known now."""

    code = "storage_rights_unknown"
    advice = "Try again; the log of the node says why they are not known."


class UserRights:
    """The newest rights of users; owned by the reader process, whose threads share it."""

    def __init__(self) -> None:
        self._of: Mapping[str, Rights | None] = {}

    def use(self, line: str) -> None:
        """Take the rights of a line of the node; a read that is under way goes on with those that it began with."""
        found = json.loads(line.removeprefix(RIGHTS))
        self._of = {
            user: None if rules is None else tuple((bool(allow), topic) for allow, topic in rules)
            for user, rules in found.items()
        }

    def check_of(self, user: str) -> Callable[[str], bool]:
        """What says whether a user may read a topic."""
        rules = self._of.get(user)
        if rules is None:
            raise RightsUnknownError(f"it is not known now what the user {user!r} may read", database="")
        if not rules:
            raise ForbiddenError(f"the token names the user {user!r}, and there is no such user", database="")
        known: dict[str, bool] = {}

        def may_read(topic: str) -> bool:
            found = known.get(topic)
            if found is None:
                found = known[topic] = _decide(rules, topic)
            return found

        return may_read


def line_of(rights: Mapping[str, Rights | None]) -> str:
    """The line with the rights of users that a node sends."""
    return RIGHTS + json.dumps(rights)


def _decide(rules: Rights, topic: str) -> bool:
    for allow, topic_filter in rules:
        if topic_filter is None or topic_matches(topic, topic_filter):
            return allow
    return False
