"""The broker's own messages on their way out: `$SYS` topics and `$events`.

They are caused in the middle of other work (a delivery, a CONNECT, a tick) and must not be published there: a session
that is just being delivered to would get them between two of its steps. They wait here for the next turn of the event
loop, and a large round of them is spread over several turns.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

SYSTEM_CLIENTID: Final = ""
"""The client id of messages that the broker makes itself; no client can have it."""

# Deliveries and topics of one turn: about a millisecond.
_WORK_PER_TURN: Final = 8192
_TOPICS_PER_TURN: Final = 64


class MessagePublisher(Protocol):
    """Publishes these messages; `node.publisher` implements it."""

    def wants(self, topic: str) -> bool:
        """For a message that is not retained."""

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        """At QoS 0."""

    def work(self) -> int:
        """What was done so far, in deliveries."""

    def defer(self, callback: Callable[[], None]) -> object:
        """Call it in a later turn of the event loop."""


class SystemMessageQueue:
    """The broker's own messages of one node, at most `messages_max`; owned by the node's kernel."""

    def __init__(self, kernel: MessagePublisher, messages_max: int = 10_000) -> None:
        self._kernel = kernel
        self._messages_max = messages_max
        self._waiting: deque[tuple[str, bytes, bool]] = deque()
        self._is_deferred = False
        self._published = 0
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def wants(self, topic: str) -> bool:
        """Ask before making the payload."""
        return self._kernel.wants(topic)

    def put(self, topic: str, payload: bytes, retain: bool = False) -> None:
        """In a later turn, behind those that wait already."""
        if len(self._waiting) >= self._messages_max:
            self._dropped += 1
            return
        self._waiting.append((topic, payload, retain))
        self._go_on_later()

    def statistics(self) -> dict[str, int]:
        return {
            "system_messages.published": self._published,
            "system_messages.waiting": len(self._waiting),
            "system_messages.dropped": self._dropped,
        }

    def _go_on_later(self) -> None:
        if not self._is_deferred:
            self._is_deferred = True
            self._kernel.defer(self._go_on)

    def _go_on(self) -> None:
        self._is_deferred = False
        kernel = self._kernel
        end = kernel.work() + _WORK_PER_TURN
        topics = 0
        try:
            while self._waiting and topics < _TOPICS_PER_TURN and kernel.work() <= end:
                topic, payload, retain = self._waiting.popleft()
                topics += 1
                if retain or kernel.wants(topic):
                    kernel.publish(topic, payload, retain)
                    self._published += 1
        finally:
            if self._waiting:
                self._go_on_later()
