"""Messages as they come, for people who look on: of a topic filter, at most so many a second, cut to so many bytes.

Without a tail, nothing is hooked in. With one, messages of other topics do not pay for it. A tail sees a
message as subscribers get it: after rewriting, validation, transformation and delay.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from heliograph.broker.hook_order import RULES
from heliograph.broker.hooks import Hooks
from heliograph.broker.message import Message
from heliograph.mqtt.topic import topic_matches

_ORDER: Final = RULES - 1  # behind all that may change a message or stop it
_WAITING_MAX: Final = 500
_WAITING_BYTES_MAX: Final = 4 << 20  # messages are held whole, however little of them is wanted
_SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TailedMessage:
    """A message that a tail has taken.

    Attributes:
        left_out: How many messages of the filter came between it and the one before, and were not taken.
    """

    message: Message
    payload: bytes
    left_out: int


class MessageTail:
    """What one looker-on gets; made by `MessageTails.open`, which it goes back to with `close`."""

    def __init__(self, topic_filter: str, rate: int, payload_max: int) -> None:
        self.topic_filter = topic_filter
        self.came = asyncio.Event()
        self._rate = rate
        self._payload_max = payload_max
        self._waiting: deque[TailedMessage] = deque()
        self._waiting_bytes = 0
        self._left_out = 0
        self._allowed = float(rate)
        self._looked_us = 0

    def offer(self, message: Message, now_us: int) -> None:
        passed_us, self._looked_us = now_us - self._looked_us, now_us
        self._allowed = min(float(self._rate), self._allowed + passed_us * self._rate / _SECOND_US)
        payload = message.payload[: self._payload_max]
        size = len(message.payload) + len(payload) + len(message.topic) + len(message.property_bytes)
        is_full = len(self._waiting) >= _WAITING_MAX or self._waiting_bytes + size > _WAITING_BYTES_MAX
        if self._allowed < 1 or (is_full and self._waiting):
            self._left_out += 1
            return
        self._allowed -= 1
        self._waiting.append(TailedMessage(message, payload, self._left_out))
        self._waiting_bytes += size
        self._left_out = 0
        self.came.set()

    def take(self, count_max: int) -> list[TailedMessage]:
        taken = [self._waiting.popleft() for _ in range(min(count_max, len(self._waiting)))]
        if not self._waiting:
            self._waiting_bytes = 0
            self.came.clear()
        return taken

    def take_left_out(self) -> int:
        left_out, self._left_out = self._left_out, 0
        return left_out


class MessageTails:
    """The tails of a node; owned by the control socket."""

    def __init__(self, hooks: Hooks, now_us: Callable[[], int]) -> None:
        self._point = hooks.message_publish
        self._now_us = now_us
        self._tails: list[MessageTail] = []

    def __len__(self) -> int:
        return len(self._tails)

    def open(self, tail: MessageTail) -> None:
        self._tails.append(tail)
        if len(self._tails) == 1:
            self._point.add(self.on_message_publish, _ORDER, self.wants)
        else:
            self._point.renew()

    def close(self, tail: MessageTail) -> None:
        self._tails.remove(tail)
        if self._tails:
            self._point.renew()
        else:
            self._point.remove(self.on_message_publish)

    def wants(self, topic: str) -> bool:
        return any(topic_matches(topic, tail.topic_filter) for tail in self._tails)

    def on_message_publish(self, message: Message) -> None:
        for tail in self._tails:
            if topic_matches(message.topic, tail.topic_filter):
                tail.offer(message, self._now_us())
