"""Topic metrics: what is published to chosen topics, delivered from them, and dropped."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from heliograph.broker.message import Message
from heliograph.broker.subscription import Subscription
from heliograph.broker.tracer import DROPPED, SENT, Tracer

#: The counts of a topic, in the order in which they are kept.
NAMES: Final = ("in", "out", "dropped", *(f"qos{qos}.{way}" for qos in range(3) for way in ("in", "out")))
_IN: Final = 0
_OUT: Final = 1
_DROPPED: Final = 2
_OF_QOS: Final = 3  # in and out of each QoS
_RATE_US: Final = 1_000_000


class CountedTopic:
    """The counts of one topic.

    Attributes:
        counts: By the order of `NAMES`.
        rates: What came in a second, likewise.
    """

    def __init__(self, topic: str, created_us: int) -> None:
        self.topic = topic
        self.created_us = created_us
        self.reset_us = 0
        self.counts = [0] * len(NAMES)
        self.rates = [0.0] * len(NAMES)
        self._before = [0] * len(NAMES)

    def reset(self, now_us: int) -> None:
        self.reset_us = now_us
        self.counts = [0] * len(NAMES)
        self.rates = [0.0] * len(NAMES)
        self._before = [0] * len(NAMES)

    def look(self, passed_us: int) -> None:
        self.rates = [
            round((now - before) * 1e6 / passed_us, 2) for now, before in zip(self.counts, self._before, strict=True)
        ]
        self._before = list(self.counts)


class TopicMetrics(Tracer):
    """Counts the messages of some topics; owned by its part. Messages of other topics do not pay for it."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        super().__init__()
        self.wants_stored = True
        self._now_us = now_us
        self._topics: dict[str, CountedTopic] = {}
        self._looked_us = 0

    def use(self, topics: Iterable[str]) -> None:
        """Count these topics from now on; those that stay keep their counts."""
        known = self._topics
        self._topics = {topic: known.get(topic) or CountedTopic(topic, self._now_us()) for topic in topics}

    def wants(self, topic: str) -> bool:
        return topic in self._topics

    def reset(self, topic: str) -> bool:
        """Begin with 0 for a topic, or for all where it is empty: whether it is counted."""
        counted = self._topics.get(topic)
        for one in self if not topic else [counted] if counted is not None else []:
            one.reset(self._now_us())
        return not topic or counted is not None

    def tick(self, uptime_us: int) -> None:
        """Make rates of what was counted, once a second."""
        passed_us = uptime_us - self._looked_us
        if passed_us >= _RATE_US:
            self._looked_us = uptime_us
            for topic in self:
                topic.look(passed_us)

    def __iter__(self) -> Iterator[CountedTopic]:
        return iter(list(self._topics.values()))

    def __len__(self) -> int:
        return len(self._topics)

    # --- called by the kernel

    def on_message_publish(self, message: Message) -> None:
        counted = self._topics.get(message.topic)
        if counted is not None:
            message.is_traced = True
            counted.counts[_IN] += 1
            counted.counts[_OF_QOS + 2 * int(message.qos)] += 1

    def follow(self, message: Message, origin: str) -> None:
        """A message comes, perhaps from storage: what becomes of it counts if its topic is counted."""
        if message.topic in self._topics:
            message.is_traced = True

    def on_dropped(self, message: Message, reason: str) -> None:
        counted = self._topics.get(message.topic)
        if counted is not None:
            counted.counts[_DROPPED] += 1

    def on_delivery(
        self, clientid: str, message: Message, subscription: Subscription, outcome: str, reason: str
    ) -> None:
        counted = self._topics.get(message.topic)
        if counted is None:
            return
        if outcome == SENT:
            counted.counts[_OUT] += 1
            counted.counts[_OF_QOS + 2 * int(min(message.qos, subscription.qos)) + 1] += 1
        elif outcome == DROPPED:
            counted.counts[_DROPPED] += 1
