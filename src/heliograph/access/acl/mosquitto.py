"""mosquitto's `acl_file`, as rule objects of the built-in rules: by user name, and for all clients.

In that file a denial counts before what is allowed, lines before the first `user` are about clients without a user
name, patterns are asked after the lines of a user, and what nothing allows is denied. The rules say the same in their
order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from heliograph.access.acl.errors import AclError, AclFault
from heliograph.access.acl.rows import Row
from heliograph.broker.actions import ALLOW, DENY, PUBLISH, SUBSCRIBE
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, topic_filter_fault

ACCESS: Final = {"read": SUBSCRIBE, "write": PUBLISH, "readwrite": "all", "deny": DENY}
"""What may stand before a topic, and the action that it is."""

_EVERYTHING: Final = ("#", "$SYS/#")
_ANY_USERNAME: Final = "^"  # one that is there; an expression cannot say that none is
_LEVELS_MAX: Final = MAX_TOPIC_BYTES + 1


@dataclass(frozen=True, slots=True)
class ImportedRules:
    """The rules of one owner; its kind is `username` or `all`, which has an empty name."""

    kind: str
    name: str
    rows: list[Row]


@dataclass(slots=True)
class _Lines:
    topics: dict[str, list[str]] = field(default_factory=dict)

    def add(self, access: str, topic: str) -> None:
        topics = self.topics.setdefault(access, [])
        if topic not in topics:
            topics.append(topic)

    def rows(self, **conditions: str) -> list[Row]:
        """A rule object for each access, denials first."""
        ordered = sorted(self.topics.items(), key=lambda item: item[0] != DENY)
        return [_row(access, topics, **conditions) for access, topics in ordered]


def read_mosquitto_acl(text: str | bytes) -> list[ImportedRules]:
    """The rules of a file: those of each user name, then those of all clients.

    Raises:
        AclError: mosquitto would not read it; or a topic begins with `eq `, which a rule object cannot say.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise AclError([AclFault(f"byte {error.start} is not UTF-8")]) from None
    users: dict[str, _Lines] = {}
    anonymous, patterns, faults = _Lines(), _Lines(), list[AclFault]()
    owner = anonymous
    for number, line in enumerate(text.split("\n"), 1):
        try:
            word, rest = _split(line)
            if word == "user":
                owner = users.setdefault(rest, _Lines())
            elif word:
                access, topic = _access(rest)
                (patterns if word == "pattern" else owner).add(access, _template(topic, word == "pattern"))
        except ValueError as error:
            faults.append(AclFault(str(error), number, 1))
    if faults:
        raise AclError(faults)
    owners = [ImportedRules("username", name, lines.rows()) for name, lines in users.items() if lines.topics]
    return [*owners, ImportedRules("all", "", list(_rows_of_all(anonymous, patterns)))]


def _split(line: str) -> tuple[str, str]:
    """The keyword of a line and what follows, empty for a comment; `ValueError` where there is no such line."""
    line = line.rstrip()
    if not line or line.startswith("#"):
        return "", ""
    word, _, rest = line.lstrip(" ").partition(" ")
    if word not in ("topic", "pattern", "user"):
        raise ValueError(f"found {word[:40]!r}; topic, pattern, user and, at the beginning of a line, # are valid")
    if not rest.strip():
        raise ValueError("a user name is missing" if word == "user" else "a topic is missing")
    return word, rest.strip()


def _access(rest: str) -> tuple[str, str]:
    word, blank, topic = rest.partition(" ")
    if not blank:
        return "all", word
    if word not in ACCESS:
        raise ValueError(f"found {word[:40]!r} before a topic; {', '.join(ACCESS)} are valid")
    return ACCESS[word], topic.strip()


def _template(topic: str, is_pattern: bool) -> str:
    fault = topic_filter_fault(topic, _LEVELS_MAX)
    if fault is not None:
        raise ValueError(fault)
    if topic.startswith("eq "):
        raise ValueError(
            f"{topic[:40]!r} begins with 'eq ', which means something else in a rule; write it as acl.conf"
        )
    topic = topic.replace("${", "${$}{")
    return topic.replace("%c", "${clientid}").replace("%u", "${username}") if is_pattern else topic


def _rows_of_all(anonymous: _Lines, patterns: _Lines) -> Iterator[Row]:
    if anonymous.topics:  # clients with a user name must not come as far as those
        yield from patterns.rows(username_re=_ANY_USERNAME)
        hidden = [topic for topics in anonymous.topics.values() for topic in topics if topic.startswith("$")]
        yield _row(DENY, [*_EVERYTHING, *hidden], username_re=_ANY_USERNAME)
        yield from anonymous.rows()
    yield from patterns.rows()
    yield _row(DENY, list(_EVERYTHING))


def _row(access: str, topics: list[str], **conditions: str) -> Row:
    permission, action = (DENY, "all") if access == DENY else (ALLOW, access)
    return {"permission": permission, "action": action, "topics": topics, **conditions}
