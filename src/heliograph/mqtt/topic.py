"""Topic names and topic filters: what is valid, and which filter matches which name (MQTT 5 section 4.7).

The naive matcher here decides single questions (rules, storage filters, tests); routing uses the trie of `broker`.
"""

from typing import Final

MAX_TOPIC_BYTES: Final = 65_535
SHARE_PREFIX: Final = "$share/"


def topic_name_fault(topic: str, levels_max: int) -> str | None:
    """Why `topic` may not be published to, or None if it may.

    Args:
        topic: A decoded topic name.
        levels_max: The most levels that the operator allows.
    """
    if not topic:
        return "the topic name is empty"  # [MQTT-4.7.3-1]
    if "+" in topic or "#" in topic:
        return f"the topic name {topic!r} holds a wildcard"  # [MQTT-3.3.2-2]
    if "\0" in topic:
        return f"the topic name {topic!r} holds U+0000"  # [MQTT-4.7.3-2]
    if topic.count("/") >= levels_max:
        return f"the topic name has {topic.count('/') + 1} levels; at most {levels_max} are allowed"
    return None


def topic_filter_fault(topic_filter: str, levels_max: int) -> str | None:
    """Why `topic_filter` is not a valid filter (without a share prefix), or None if it is one.

    Args:
        topic_filter: A decoded topic filter.
        levels_max: The most levels that the operator allows.
    """
    if not topic_filter:
        return "the topic filter is empty"  # [MQTT-4.7.3-1]
    if "\0" in topic_filter:
        return f"the topic filter {topic_filter!r} holds U+0000"  # [MQTT-4.7.3-2]
    levels = topic_filter.split("/")
    if len(levels) > levels_max:
        return f"the topic filter has {len(levels)} levels; at most {levels_max} are allowed"
    for position, level in enumerate(levels):
        if len(level) > 1 and "+" in level:
            return f"'+' must stand alone in its level in {topic_filter!r}"  # [MQTT-4.7.1-2]
        if "#" in level and (len(level) > 1 or position != len(levels) - 1):
            return f"'#' must stand alone and last in {topic_filter!r}"  # [MQTT-4.7.1-1]
    return None


def has_wildcard(topic_filter: str) -> bool:
    """Whether a valid filter can match more than the one name equal to it."""
    return "+" in topic_filter or "#" in topic_filter


def topic_matches(topic: str, topic_filter: str) -> bool:
    """Whether a valid topic name is matched by a valid topic filter.

    Names beginning with `$` are not matched by filters beginning with a wildcard [MQTT-4.7.2-1].
    """
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    names = topic.split("/")
    filters = topic_filter.split("/")
    for position, level in enumerate(filters):
        if level == "#":
            return True
        if position >= len(names) or (level != "+" and level != names[position]):
            return False
    return len(names) == len(filters)
