"""Topic metrics as a part of a node."""

from collections.abc import Iterable

from heliograph.broker.hook_order import TOPIC_METRICS
from heliograph.config import Config, TopicMetric
from heliograph.events.topic_metrics import TopicMetrics
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Sample, gauge, plain
from heliograph.parts import Change, Part


class TopicMetricsPart(Part):
    """Counts the messages of the topics that are configured; owned by the node.

    Attributes:
        counted: The counts.
        topics: The topics, in the order of the configuration.
    """

    name = "topic_metrics"
    metrics = (gauge("topic_metrics.count", "Topics whose messages are counted (`topic_metrics`)."),)
    needs = ("kernel",)
    roots = ("topic_metrics",)

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        self._kernel = kernel
        self._is_joined = False
        self.topics = _topics(config.topic_metrics)
        self.counted = TopicMetrics(lambda: int(kernel.broker.now_us))

    async def start(self) -> None:
        """Begin to count."""
        self._use(self.topics)

    async def check(self, new: Config) -> Change | None:
        """Other topics; those that stay keep their counts."""
        topics = _topics(new.topic_metrics)
        return None if topics == self.topics else Change(lambda: self._use(topics))

    def tick(self, uptime_us: int) -> None:
        """Make rates."""
        self.counted.tick(uptime_us)

    def samples(self) -> list[Sample]:
        """How many topics are counted."""
        return plain({"topic_metrics.count": len(self.counted)})

    def _use(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self.counted.use(topics)
        broker, point = self._kernel.broker, self._kernel.broker.hooks.message_publish
        broker.join_tracer(self.counted, bool(topics))
        if topics and not self._is_joined:
            point.add(self.counted.on_message_publish, TOPIC_METRICS, self.counted.wants)
        elif topics:
            point.renew()  # other topics now
        elif self._is_joined:
            point.remove(self.counted.on_message_publish)
        self._is_joined = bool(topics)


def _topics(settings: Iterable[TopicMetric]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.topic for one in settings if one.topic))
