"""Rules of other brokers as the text of an `acl.conf`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from heliograph.access.acl.mosquitto import ImportedRules
from heliograph.access.acl.rows import Row

_EQUAL: Final = "eq "


def mosquitto_rules(
    owners: Iterable[ImportedRules], listener: str | None = None, mountpoint: str = ""
) -> Iterator[str]:
    """The rules of an `acl_file`, in the order in which they are asked.

    Args:
        listener: Whose clients they are about; None for those of all.
        mountpoint: The mountpoint of the listener, with its slash: mosquitto compares topics with it, we without.
    """
    prefix = mountpoint.split("/")[:-1]
    for own in owners:
        for row in own.rows:
            topics = [left for topic in _topics(row) if (left := _unmounted(topic.split("/"), prefix))]
            if topics:
                who = _who(own, row.get("username_re"), listener)
                yield rule_text(str(row["permission"]), who, str(row["action"]), list(map(topic_text, topics)))


def rule_text(permission: str, who: Sequence[str], action: str, topics: Sequence[str] | None) -> str:
    """One rule.

    Args:
        who: Terms that must all hold of a client; empty for all clients.
        action: A term, such as `publish`.
        topics: Terms; None for all topics.
    """
    joined = f"{{'and', [{', '.join(who)}]}}"
    condition = joined if len(who) > 1 else "".join(who) or "all"
    topic_list = "all" if topics is None else f"[{', '.join(topics)}]"
    return f"{{{permission}, {condition}, {action}, {topic_list}}}."


def quoted(text: str) -> str:
    """A text as a string of the file."""
    return '"' + "".join(map(_character, text)) + '"'


def topic_text(topic: str) -> str:
    """A topic of a rule object; one that begins with `eq ` is compared as it is."""
    return f"{{eq, {quoted(topic[len(_EQUAL) :])}}}" if topic.startswith(_EQUAL) else quoted(topic)


def _character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\x{{{ord(character):X}}}"


def _who(own: ImportedRules, username_re: object, listener: str | None) -> list[str]:
    who = [f"{{listener, {quoted(listener)}}}"] if listener is not None else []
    if own.name:
        who.append(f"{{username, {quoted(own.name)}}}")
    if isinstance(username_re, str):
        who.append(f"{{username, {{re, {quoted(username_re)}}}}}")
    return who


def _topics(row: Row) -> list[str]:
    topics = row["topics"]
    assert isinstance(topics, list)
    return topics


def _unmounted(levels: Sequence[str], prefix: Sequence[str]) -> str:
    """A filter without the levels of a mountpoint; empty if it matches no topic below it."""
    for number, level in enumerate(prefix):
        if levels[number : number + 1] == ["#"]:
            return "#"
        if levels[number : number + 1] not in ([level], ["+"]):
            return ""
    return "/".join(levels[len(prefix) :])
