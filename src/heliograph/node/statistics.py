"""Slow subscriptions, topic metrics, disconnects, and the peaks of counts, as parts of a node."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from heliograph.broker import hooks
from heliograph.broker.delivery_times import INTERNAL, RESPONSE, WHOLE
from heliograph.broker.hook_order import LOG, TOPIC_METRICS
from heliograph.config.monitoring import SlowSubs, TopicMetric
from heliograph.config.settings import Config
from heliograph.events.disconnects import DisconnectHistory
from heliograph.events.slow_subscriptions import SlowSubscriptions
from heliograph.events.topic_metrics import TopicMetrics
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Sample, gauge, plain
from heliograph.observe.metrics import COUNTS, STATISTICS, counts_of
from heliograph.parts import Change, Hook, HookedPart, Part
from heliograph.settings.records import microseconds

_MEASURED = {"whole": WHOLE, "internal": INTERNAL, "response": RESPONSE}


class SlowSubscriptionsPart(Part):
    """Looks for slow subscriptions while they are enabled; owned by the node."""

    name = "slow_subscriptions"
    metrics = (gauge("slow_subscriptions.count", "Slow subscriptions that are listed (`slow_subs`)."),)
    needs = ("kernel",)
    roots = ("slow_subs",)

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        self._settings = config.slow_subs
        self._kernel = kernel
        self.found = self._make(config.slow_subs)

    async def start(self) -> None:
        self._join()

    async def check(self, new: Config) -> Change | None:
        """What was found before is forgotten, as EMQX does."""
        settings = new.slow_subs
        return None if settings == self._settings else Change(lambda: self._use(settings))

    def tick(self, uptime_us: int) -> None:
        self.found.forget_old()

    def samples(self) -> list[Sample]:
        return plain({"slow_subscriptions.count": len(self.found)})

    def _use(self, settings: SlowSubs) -> None:
        self._settings = settings
        self.found = self._make(settings)
        self._join()

    def _join(self) -> None:
        self._kernel.broker.delivery_times = self.found if self._settings.enable else None

    def _make(self, settings: SlowSubs) -> SlowSubscriptions:
        return SlowSubscriptions(
            microseconds(settings.threshold),
            _MEASURED[settings.stats_type],
            settings.top_k_num,
            microseconds(settings.expire_interval),
            lambda: int(self._kernel.broker.now_us),
            self._session_began_us,
        )

    def _session_began_us(self, clientid: str) -> int:
        session = self._kernel.context.sessions.held(clientid)
        return 0 if session is None else int(session.created_at_us)


class TopicMetricsPart(Part):
    """Counts the messages of the topics that are configured; owned by the node."""

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
        self._use(self.topics)

    async def check(self, new: Config) -> Change | None:
        """Topics that stay keep their counts."""
        topics = _topics(new.topic_metrics)
        return None if topics == self.topics else Change(lambda: self._use(topics))

    def tick(self, uptime_us: int) -> None:
        self.counted.tick(uptime_us)

    def samples(self) -> list[Sample]:
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


class DisconnectsPart(HookedPart):
    """Keeps who was disconnected lately and why; owned by the node."""

    name = "disconnects"
    needs = ("kernel",)
    roots = ("broker.disconnect_history_size",)

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        super().__init__(kernel.broker.hooks)
        self._size = config.broker.disconnect_history_size
        self.history = DisconnectHistory(self._size, lambda: int(kernel.broker.now_us))

    async def start(self) -> None:
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        size = new.broker.disconnect_history_size
        return None if size == self._size else Change(lambda: self._use(size))

    def wanted(self) -> Sequence[Hook]:
        return [Hook(hooks.CLIENT_DISCONNECTED, self.history.on_client_disconnected, LOG)] if self._size else []

    def _use(self, size: int) -> None:
        self._size = size
        self.history.resize(size)
        self.hook_in()


class PeaksPart(Part):
    """Looks at sizes at each tick and keeps the largest; owned by the node."""

    name = "peaks"
    metrics = tuple(
        gauge(f"{name}.max", f"The most that `{name}.count` has been, in EMQX's sense.") for name in STATISTICS
    )
    needs = ("kernel", "delayed", "retained")

    def __init__(self, numbers: Callable[[Collection[str]], Mapping[str, float]]) -> None:
        self._numbers = numbers
        self._peaks = {f"{name}.max": 0 for name in STATISTICS}

    def tick(self, uptime_us: int) -> None:
        for name, count in counts_of(self._numbers(COUNTS)).items():
            peak = name.removesuffix("count") + "max"
            self._peaks[peak] = max(self._peaks[peak], count)

    def samples(self) -> list[Sample]:
        return plain(self._peaks)
