"""Slow subscriptions: the receivers and topics whose messages take longest, as EMQX lists them."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from heliograph.broker.delivery_times import DeliveryTimes
from heliograph.broker.message import Message

Key = tuple[str, str]
"""A client id and a topic."""


@dataclass(frozen=True, slots=True)
class SlowSubscription:
    """The messages of one topic to one client: the longest that one took, and when one was slow last."""

    clientid: str
    topic: str
    took_us: int
    seen_us: int


class SlowSubscriptions(DeliveryTimes):
    """Those that take longest, at most so many; owned by its part, joined to the broker while it is enabled.

    Args:
        measured: What is measured, of `delivery_times`.
        kept_us: How long one is kept after it was slow last.
        began_us: When the session of a client began: messages from before then say nothing of the client.
    """

    def __init__(
        self,
        threshold_us: int,
        measured: int,
        count_max: int,
        kept_us: int,
        now_us: Callable[[], int],
        began_us: Callable[[str], int],
    ) -> None:
        super().__init__(threshold_us, measured)
        self._count_max = count_max
        self._kept_us = kept_us
        self._now_us = now_us
        self._began_us = began_us
        self._slow: dict[Key, SlowSubscription] = {}
        self._least: list[tuple[int, Key]] = []  # the fastest first; some stand there again, or not any more

    def on_slow(self, clientid: str, message: Message, took_us: int) -> None:
        key = (clientid, message.topic)
        known = self._slow.get(key)
        if known is None and len(self._slow) >= self._count_max and took_us <= self._fastest().took_us:
            return
        if message.id_high < self._began_us(clientid):
            return
        most = took_us if known is None else max(took_us, known.took_us)
        self._slow[key] = SlowSubscription(clientid, message.topic, int(most), self._now_us())
        if known is None or most > known.took_us:
            self._note(int(most), key)
        if len(self._slow) > self._count_max:
            fastest = self._fastest()
            del self._slow[fastest.clientid, fastest.topic]

    def forget_old(self) -> None:
        since_us = self._now_us() - self._kept_us
        for key in [key for key, one in self._slow.items() if one.seen_us < since_us]:
            del self._slow[key]

    def clear(self) -> None:
        self._slow.clear()
        self._least.clear()

    def __len__(self) -> int:
        return len(self._slow)

    def __iter__(self) -> Iterator[SlowSubscription]:
        return iter(sorted(self._slow.values(), key=lambda one: -one.took_us))

    def _note(self, took_us: int, key: Key) -> None:
        if len(self._least) > 4 * self._count_max + 16:
            self._least = [(one.took_us, key) for key, one in self._slow.items()]
            heapq.heapify(self._least)
        heapq.heappush(self._least, (took_us, key))

    def _fastest(self) -> SlowSubscription:
        while True:
            took_us, key = self._least[0]
            known = self._slow.get(key)
            if known is not None and known.took_us == took_us:
                return known
            heapq.heappop(self._least)
