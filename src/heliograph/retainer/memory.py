"""Retained messages in memory, found by topic levels.

The store is a trie of literal levels, so that a wildcard subscription looks only at topics that it can match.
"""

from collections.abc import Iterator

from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker, RetainedStore


class _Level:
    __slots__ = ("children", "message")

    def __init__(self) -> None:
        self.children: dict[str, _Level] = {}
        self.message: Message | None = None


class MemoryRetainer(RetainedStore):
    """The retained messages of one node; owned by the node.

    Args:
        messages_max: How many topics may have one; None for no limit.
        payload_bytes_max: Larger payloads are delivered but not retained.
        expiry_s: How long a message without an expiry interval of its own is kept; 0 for ever.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        messages_max: int | None = None,
        payload_bytes_max: int = 1_048_576,
        expiry_s: float = 0,
    ) -> None:
        super().__init__()
        self._broker = broker
        self._messages_max = messages_max
        self._payload_max = payload_bytes_max
        self._expiry_us = int(expiry_s * 1_000_000)
        self._root = _Level()
        self._count = 0
        self._refused_full = 0
        self._refused_size = 0

    def __len__(self) -> int:
        return self._count

    def retain(self, message: Message) -> None:
        """Keep `message` for its topic; an empty payload forgets the topic's message [MQTT-3.3.1-6]."""
        if not message.payload:
            self._forget(message.topic)
        elif len(message.payload) > self._payload_max:
            self._refused_size += 1
        else:
            self._keep(message)

    def match(self, topic_filter: str) -> list[Message]:
        """The retained messages whose topics a filter matches; those that expired are forgotten on the way."""
        found: list[Message] = []
        expired: list[str] = []
        for message in _walk(self._root, topic_filter.split("/")):
            if self._expired(message):
                expired.append(message.topic)
            else:
                found.append(message)
        for topic in expired:
            self._forget(topic)
        return found

    def holds(self, message: Message) -> bool:
        """Whether `message` is still the one of its topic."""
        level = _find(self._root, message.topic.split("/"))
        return level is not None and level.message is message

    def statistics(self) -> dict[str, int]:
        """How many messages are retained, and how many were not for lack of room or for their size."""
        return {
            "retained.count": self._count,
            "retained.refused.full": self._refused_full,
            "retained.refused.payload_size": self._refused_size,
        }

    def _keep(self, message: Message) -> None:
        levels = message.topic.split("/")
        known = _find(self._root, levels)
        if known is not None and known.message is not None:
            known.message = message
            return
        if self._messages_max is not None and self._count >= self._messages_max:
            self._refused_full += 1
            return
        node = self._root
        for level in levels:
            node = node.children.setdefault(level, _Level())
        node.message = message
        self._count += 1

    def _forget(self, topic: str) -> None:
        path = [self._root]
        levels = topic.split("/")
        for level in levels:
            child = path[-1].children.get(level)
            if child is None:
                return
            path.append(child)
        if path[-1].message is not None:
            path[-1].message = None
            self._count -= 1
        for depth in range(len(levels), 0, -1):
            if path[depth].children or path[depth].message is not None:
                return
            del path[depth - 1].children[levels[depth - 1]]

    def _expired(self, message: Message) -> bool:
        now = self._broker.now_us
        if message.expired(now):
            return True
        return self._expiry_us > 0 and message.expiry_s < 0 and now >= message.received_at + self._expiry_us


def _find(level: _Level, levels: list[str]) -> _Level | None:
    node: _Level | None = level
    for name in levels:
        node = None if node is None else node.children.get(name)
    return node


def _walk(root: _Level, levels: list[str]) -> Iterator[Message]:
    # No recursion, here and below: a topic may have more levels than Python has frames to spare.
    waiting = [(root, 0)]
    while waiting:
        level, depth = waiting.pop()
        if depth == len(levels):
            if level.message is not None:
                yield level.message
            continue
        wanted = levels[depth]
        if wanted == "#":
            yield from _below(level, depth == 0)
        elif wanted == "+":
            waiting.extend(
                (child, depth + 1)
                for name, child in level.children.items()
                if depth > 0 or not name.startswith("$")  # [MQTT-4.7.2-1]
            )
        else:
            named = level.children.get(wanted)
            if named is not None:
                waiting.append((named, depth + 1))


def _below(level: _Level, is_root: bool) -> Iterator[Message]:
    waiting = [level]
    while waiting:
        node = waiting.pop()
        if node.message is not None:
            yield node.message
        waiting.extend(
            child for name, child in node.children.items() if not (is_root and node is level and name.startswith("$"))
        )
