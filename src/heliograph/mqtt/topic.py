"""Topic names and topic filters: what is valid, and which filter matches which name (MQTT 5 section 4.7).

The naive matcher here decides single questions (rules, storage filters, tests); routing uses the trie of `broker`.
"""

from typing import Final

MAX_TOPIC_BYTES: Final = 65_535
SHARE_PREFIX: Final = "$share/"
QUEUE_PREFIX: Final = "$queue/"  # EMQX's short form: one group for all clients
QUEUE_GROUP: Final = "$queue"
EXCLUSIVE_PREFIX: Final = "$exclusive/"
DELAYED_PREFIX: Final = "$delayed/"
SYS_PREFIX: Final = "$SYS/"  # what the broker says about itself
EVENTS_PREFIX: Final = "$events/"  # what it says of clients and messages
_CLIENTS_LEVEL: Final = 3  # of `$SYS/brokers/NODE/clients/CLIENTID/connected`
_SHOWN_LENGTH_MAX: Final = 200
_PREFIXES: Final = (SHARE_PREFIX, QUEUE_PREFIX, EXCLUSIVE_PREFIX)


def topic_name_fault(topic: str, levels_max: int) -> str | None:
    """Why `topic` may not be published to, or None if it may."""
    if not topic:
        return "the topic name is empty"  # [MQTT-4.7.3-1] 3.1.1 [MQTT-4.7.3-1]
    if "+" in topic or "#" in topic:
        # [MQTT-3.3.2-2] [MQTT-4.7.0-1] 3.1.1 [MQTT-3.3.2-2] 3.1.1 [MQTT-4.7.1-1]
        return f"the topic name {_shown(topic)} holds a wildcard"
    if "\0" in topic:
        return f"the topic name {_shown(topic)} holds U+0000"  # [MQTT-4.7.3-2] 3.1.1 [MQTT-4.7.3-2]
    if topic.count("/") >= levels_max:
        return f"the topic name has {topic.count('/') + 1} levels; at most {levels_max} are allowed"
    return None


def topic_filter_fault(topic_filter: str, levels_max: int) -> str | None:
    """Why `topic_filter` is not a valid filter (without a share prefix), or None if it is one."""
    if not topic_filter:
        return "the topic filter is empty"  # [MQTT-4.7.3-1] 3.1.1 [MQTT-4.7.3-1]
    if "\0" in topic_filter:
        return f"the topic filter {_shown(topic_filter)} holds U+0000"  # [MQTT-4.7.3-2] 3.1.1 [MQTT-4.7.3-2]
    levels = topic_filter.split("/")
    if len(levels) > levels_max:
        return f"the topic filter has {len(levels)} levels; at most {levels_max} are allowed"
    for position, level in enumerate(levels):
        if len(level) > 1 and "+" in level:
            return f"'+' must stand alone in its level in {_shown(topic_filter)}"  # [MQTT-4.7.1-2] 3.1.1 [MQTT-4.7.1-3]
        if "#" in level and (len(level) > 1 or position != len(levels) - 1):
            return f"'#' must stand alone and last in {_shown(topic_filter)}"  # [MQTT-4.7.1-1] 3.1.1 [MQTT-4.7.1-2]
    return None


def subscription_fault(topic_filter: str, levels_max: int) -> str | None:
    """Why `topic_filter`, as a SUBSCRIBE carries it with its share prefix and all, is not valid; None if it is.

    A prefix within a prefix (`$share/g/$queue/t`) is refused: one subscription cannot belong to two groups, and be
    exclusive and shared at once.

    Args:
        levels_max: Levels of the prefix are not counted.
    """
    if not topic_filter.startswith(_PREFIXES):
        return topic_filter_fault(topic_filter, levels_max)
    if topic_filter.startswith(SHARE_PREFIX):
        fault = _share_name_fault(topic_filter)
        if fault is not None:
            return fault
    bare = bare_filter(topic_filter)
    if not bare:
        return f"no topic filter follows the prefix in {_shown(topic_filter)}"  # [MQTT-4.7.3-1]
    if bare.startswith(_PREFIXES):
        return f"a second prefix follows the first in {_shown(topic_filter)}"
    return topic_filter_fault(bare, levels_max)


def _share_name_fault(topic_filter: str) -> str | None:
    end = topic_filter.find("/", len(SHARE_PREFIX))
    if end < 0:
        return f"no '/' and topic filter follow the group in {_shown(topic_filter)}"  # [MQTT-4.8.2-2]
    group = topic_filter[len(SHARE_PREFIX) : end]
    if not group:
        return f"the group is empty in {_shown(topic_filter)}"  # [MQTT-4.8.2-1]
    if "+" in group or "#" in group:
        return f"the group {_shown(group)} holds a wildcard"  # [MQTT-4.8.2-2]
    if "\0" in group:
        return f"the group {_shown(group)} holds U+0000"  # [MQTT-1.5.4-2]
    return None


def split_share(topic_filter: str) -> tuple[str, str]:
    """The group of a shared subscription and the filter that it shares: `$share/g/a/+` gives `("g", "a/+")`.

    The group of `$queue/<filter>` is `QUEUE_GROUP`; that of a filter that is not shared is empty, and the filter is
    as it came, an exclusive one's prefix included.

    Args:
        topic_filter: One in which `subscription_fault` finds no fault.
    """
    if not topic_filter.startswith("$"):
        return "", topic_filter
    if topic_filter.startswith(QUEUE_PREFIX):
        return QUEUE_GROUP, topic_filter[len(QUEUE_PREFIX) :]
    if topic_filter.startswith(SHARE_PREFIX):
        end = topic_filter.find("/", len(SHARE_PREFIX))
        if end > len(SHARE_PREFIX):
            return topic_filter[len(SHARE_PREFIX) : end], topic_filter[end + 1 :]
    return "", topic_filter


def bare_filter(topic_filter: str) -> str:
    """What a subscription's filter matches topics with: without `$share/<group>/`, `$queue/` and `$exclusive/`."""
    if topic_filter.startswith(EXCLUSIVE_PREFIX):
        return topic_filter[len(EXCLUSIVE_PREFIX) :]
    _, bare = split_share(topic_filter)
    return bare


def without_delay(topic: str) -> str:
    """The topic that a message is for in the end: `$delayed/5/t` is for `t`; that is what is to be authorized."""
    at = 0
    while topic.startswith(DELAYED_PREFIX, at):
        end = topic.find("/", at + len(DELAYED_PREFIX))
        if end < 0:
            break
        at = end + 1
    return topic[at:]


def has_wildcard(topic_filter: str) -> bool:
    """Whether a valid filter can match more than the one name equal to it."""
    return "+" in topic_filter or "#" in topic_filter


def topic_matches(topic: str, topic_filter: str) -> bool:
    """Whether a valid topic name is matched by a valid topic filter.

    Names beginning with `$` are not matched by filters beginning with a wildcard [MQTT-4.7.2-1].
    """
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):  # [MQTT-4.7.2-1] 3.1.1 [MQTT-4.7.2-1]
        return False
    names = topic.split("/")
    filters = topic_filter.split("/")
    for position, level in enumerate(filters):
        if level == "#":
            return True
        if position >= len(names) or (level != "+" and level != names[position]):  # [MQTT-4.7.3-4] 3.1.1 [MQTT-4.7.3-4]
            return False
    return len(names) == len(filters)


def filter_covers(wide: str, narrow: str) -> bool:
    """Whether a valid topic filter surely matches every name that another one matches.

    Both without a share prefix. It is not looked whether several levels of `narrow` come to the same in other words:
    `+/#` covers what `#` matches, and the answer is False all the same.
    """
    if narrow.startswith("$") and wide[:1] in ("+", "#"):  # [MQTT-4.7.2-1] 3.1.1 [MQTT-4.7.2-1]
        return False
    wanted = narrow.split("/")
    levels = wide.split("/")
    for position, level in enumerate(levels):
        if level == "#":
            return True
        if position >= len(wanted) or wanted[position] == "#":
            return False
        if level != "+" and level != wanted[position]:
            return False
    return len(wanted) == len(levels)


def is_brokers_own(topic: str) -> bool:
    """Whether only the broker speaks in a topic, so that what clients publish there could pass for its word."""
    return topic.startswith((SYS_PREFIX, EVENTS_PREFIX))


def is_client_event(topic_filter: str) -> bool:
    """Whether all that a filter or topic matches are events of clients: `$SYS/+/+/clients/#` and `$events/#`.

    They name every client with its user name and address.
    """
    if topic_filter.startswith(EVENTS_PREFIX):
        return True
    if not topic_filter.startswith(SYS_PREFIX):
        return False
    levels = topic_filter.split("/", _CLIENTS_LEVEL + 1)
    return len(levels) > _CLIENTS_LEVEL and levels[_CLIENTS_LEVEL] == "clients"


def has_client_events(topic_filter: str) -> bool:
    """Whether a filter matches events of clients beside other topics, as `$SYS/#` does."""
    if not topic_filter.startswith(SYS_PREFIX):
        return False
    levels = topic_filter.split("/", _CLIENTS_LEVEL + 1)[: _CLIENTS_LEVEL + 1]
    return levels[-1] == "#" or (len(levels) > _CLIENTS_LEVEL and levels[_CLIENTS_LEVEL] == "+")


def _shown(text: str) -> str:
    """A text for people: of a client's 64 KiB the beginning is enough, in logs and in reason strings."""
    return repr(text) if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]!r}..."
