"""The kernel as a part of a node: the broker, the clock, sessions, channels, and the alarms that others raise."""

import asyncio
import secrets
from functools import partial

from heliograph.broker import hooks
from heliograph.broker.pubsub import Broker
from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.node.clock import NodeClock, uptime_us
from heliograph.node.data_dir import DataDirectory
from heliograph.node.metrics import kernel as metrics
from heliograph.node.publisher import SystemPublisher
from heliograph.node.reports import ProtocolErrorLog
from heliograph.observe.alarms import Alarm, Alarms
from heliograph.observe.metric import Sample, by_label, plain
from heliograph.observe.outgoing import SystemMessageQueue
from heliograph.parts import Part, each
from heliograph.session.table import SessionTable


class Voice:
    """How a node speaks of itself: its own messages, and alarms; owned by its kernel.

    Attributes:
        publisher: How its messages get published.
        outgoing: Where they wait.
        alarms: Its alarms.
    """

    def __init__(self, node_name: str, context: ChannelContext) -> None:
        broker = self._broker = context.broker
        self.publisher = SystemPublisher(context)
        self.outgoing = SystemMessageQueue(self.publisher)
        self.alarms = Alarms(node_name, self.outgoing, lambda: broker.now_us, self._tell_alarm, self.publisher)

    def statistics(self) -> dict[str, int]:
        """Counts of messages and alarms."""
        return {**self.publisher.statistics(), **self.outgoing.statistics(), **self.alarms.statistics()}

    def _tell_alarm(self, alarm: Alarm) -> None:
        is_active = alarm.deactivate_at is None
        self._broker.hooks.run(hooks.ALARM_ACTIVATED if is_active else hooks.ALARM_DEACTIVATED, (alarm,))


class KernelPart(Part):
    """What everything else of a node is joined to; owned by the node.

    Attributes:
        broker: The broker, which is there before the start, so that callbacks can be added.
        context: What channels share, with their table and that of sessions.
        clock: The node's time.
        voice: What the node says of itself.
    """

    name = "kernel"
    metrics = metrics.KERNEL
    needs = ("data_dir",)
    roots = (
        "broker",
        "node.name",
        "node.max_clock_jump",
        "sys_topics.allow_publish",
        *(f"{zone}mqtt.max_topic_levels" for zone in ("", "zones.*.")),
        "mqtt.shared_subscription_strategy",
        "mqtt.shared_subscription_initial_sticky_pick",
    )

    context: ChannelContext
    clock: NodeClock
    voice: Voice

    def __init__(self, config: Config, broker: Broker, directory: DataDirectory) -> None:
        self.broker = broker
        self._config = config
        self._directory = directory
        self._is_ticking = False  # channels still look at the time of an earlier tick

    async def start(self) -> None:
        """Make them; nothing is connected yet."""
        broker, loop, config = self.broker, asyncio.get_running_loop(), self._config
        broker.protects_sys = not config.sys_topics.allow_publish
        sessions = SessionTable(broker)
        sessions.away_max = config.broker.max_disconnected_sessions or 0
        self.context = ChannelContext(
            self._directory.number,
            broker,
            sessions,
            uptime_us,
            loop.call_soon,
            loop.call_later,
            lambda: f"auto-{secrets.token_hex(11).upper()}",
            ProtocolErrorLog(),
        )
        self.voice = Voice(config.node.name, self.context)
        self.clock = NodeClock(broker, self.alarms)
        self.clock.begin_turn()

    @property
    def alarms(self) -> Alarms:
        """The alarms of the node."""
        return self.voice.alarms

    def tick(self, uptime_us: int) -> None:
        """Let channels and sessions look at the time: what takes too long ends, and what is due is published."""
        steps = () if self._is_ticking else (self._tick_channels,)
        each((*steps, partial(self.context.sessions.expire, uptime_us)), lambda step: step())

    def samples(self) -> list[Sample]:
        """The counters of the broker, and sizes of its tables."""
        broker, context = self.broker, self.context
        counting = (broker, self.clock, context.sessions, context.sessions.wills.published, context.channels)
        found = plain(broker.counters.snapshot())
        for one in (*counting, context.turns, self.voice):
            found += plain(one.statistics())
        failed = {name: broker.hooks.point(name).failures_count for name in hooks.NAMES}
        return [
            *found,
            *by_label("hooks.failed", failed),
            *by_label("faults.contained.at", broker.faults.by_boundary()),
        ]

    def _tick_channels(self) -> None:
        """Some at once; the others in turns of their own."""
        self._is_ticking = False
        if self.context.channels.tick(self.clock.begin_turn()):
            self._is_ticking = True
            self.context.defer(self._tick_channels)
