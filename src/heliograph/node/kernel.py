"""The kernel as a part of a node: the broker, the clock, sessions, channels, and the alarms that others raise."""

import asyncio
import secrets
from collections.abc import Iterator
from functools import partial

from heliograph.broker import hooks
from heliograph.broker.pubsub import Broker
from heliograph.channel.context import ChannelContext
from heliograph.channel.option_changes import OptionChanges
from heliograph.channel.standing import StandingOptions
from heliograph.config.settings import DEFAULT_ZONE, Config, levels_max
from heliograph.node.clock import NodeClock, uptime_us
from heliograph.node.data_dir import DataDirectory
from heliograph.node.metrics import kernel as metrics
from heliograph.node.options import channel_options, shared_options
from heliograph.node.publisher import SystemPublisher
from heliograph.node.reports import ProtocolErrorLog
from heliograph.observe.alarms import Alarm, AlarmOptions, Alarms
from heliograph.observe.metric import Sample, by_label, plain
from heliograph.observe.outgoing import SystemMessageQueue
from heliograph.parts import Change, Part, each
from heliograph.session.table import SessionTable
from heliograph.settings.records import microseconds


class Voice:
    """How a node speaks of itself: alarms, and messages that wait in `outgoing`; owned by its kernel."""

    def __init__(self, node_name: str, context: ChannelContext) -> None:
        broker = self._broker = context.broker
        self.publisher = SystemPublisher(context)
        self.outgoing = SystemMessageQueue(self.publisher)
        self.alarms = Alarms(node_name, self.outgoing, lambda: broker.now_us, self._tell_alarm, self.publisher)

    def statistics(self) -> dict[str, int]:
        return {**self.publisher.statistics(), **self.outgoing.statistics(), **self.alarms.statistics()}

    def _tell_alarm(self, alarm: Alarm) -> None:
        is_active = alarm.deactivate_at is None
        self._broker.hooks.run(hooks.ALARM_ACTIVATED if is_active else hooks.ALARM_DEACTIVATED, (alarm,))


class KernelPart(Part):
    """What everything else of a node is joined to; owned by the node.

    Attributes:
        broker: The broker, which is there before the start, so that callbacks can be added.
        context: What channels share, with their table and that of sessions.
    """

    name = "kernel"
    metrics = metrics.KERNEL
    needs = ("data_dir",)
    roots = (
        "broker",
        "node.name",
        "node.max_clock_jump",
        "sys_topics.allow_publish",
        *("mqtt", "zones.*.mqtt", "force_shutdown", "zones.*.force_shutdown"),
        *("authorization.cache", "authorization.deny_action"),
        *("alarm.actions", "alarm.size_limit", "alarm.validity_period"),
    )

    context: ChannelContext
    clock: NodeClock
    voice: Voice

    def __init__(self, config: Config, broker: Broker, directory: DataDirectory) -> None:
        self.broker = broker
        self._config = config
        self._directory = directory
        self._standing: StandingOptions | None = None  # from its start on
        self._is_ticking = False  # channels still look at the time of an earlier tick

    async def start(self) -> None:
        broker, loop, config = self.broker, asyncio.get_running_loop(), self._config
        sessions = SessionTable(broker)
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
        self._standing = StandingOptions(self.context)
        self._limit(config)
        self.voice = Voice(config.node.name, self.context)
        self.alarms.use(_alarm_options(config))
        self.clock = NodeClock(broker, self.alarms)
        self.clock.begin_turn()

    async def stop(self) -> None:
        if self._standing is not None:
            self._standing.stop()

    async def check(self, new: Config) -> Change:
        changes = OptionChanges({zone: channel_options(new, zone) for zone in (DEFAULT_ZONE, *new.zones)})
        return Change(partial(self._use, new, changes))

    def _use(self, new: Config, changes: OptionChanges) -> None:
        before, self._config = self._config, new
        self._limit(new)
        if new.alarm != before.alarm:
            self.alarms.use(_alarm_options(new))
        self.broker.shared.options = shared_options(new)
        if self._standing is not None and _of_standing(new) != _of_standing(before):
            self._standing.change(changes)

    def _limit(self, config: Config) -> None:
        broker, router = self.broker, self.broker.router
        broker.clock.jump_max_us = microseconds(config.node.max_clock_jump)
        self.context.rechecks.period_us = microseconds(config.authorization.cache.ttl)
        self.context.sessions.away_max = config.broker.max_disconnected_sessions or 0
        router.set_routes_max(config.broker.route_cache_size)
        if router.levels_max != levels_max(config):
            router.set_levels_max(levels_max(config))
        if broker.protects_sys is config.sys_topics.allow_publish:
            broker.protects_sys = not config.sys_topics.allow_publish
            router.forget_routes()

    @property
    def alarms(self) -> Alarms:
        return self.voice.alarms

    def tick(self, uptime_us: int) -> None:
        steps = () if self._is_ticking else (self._tick_channels,)
        each(
            (
                *steps,
                self.alarms.tick,
                partial(self.context.rechecks.tick, uptime_us),
                partial(self.context.sessions.expire, uptime_us),
            ),
            lambda step: step(),
        )

    def samples(self) -> Iterator[Sample]:
        """Sizes first: callers that look for those leave the rest."""
        broker, context = self.broker, self.context
        counting = (broker, self.clock, context.sessions, context.sessions.wills.published, context.channels)
        for one in (*counting, context.turns, self.voice):
            yield from plain(one.statistics())
        yield from plain(broker.counters.snapshot())
        yield from broker.times.samples()
        for (listener, reason), count in broker.counters.disconnects.items():
            yield Sample("client.disconnected.reason", count, (*listener.split(":", 1), reason))
        yield from by_label("hooks.failed", {name: broker.hooks.point(name).failures_count for name in hooks.NAMES})
        yield from by_label("faults.contained.at", broker.faults.by_boundary())
        yield from by_label("alarms.by_severity", self.alarms.by_severity())

    def _tick_channels(self) -> None:
        """Some at once; the others in turns of their own."""
        self._is_ticking = False
        if self.context.channels.tick(self.clock.begin_turn()):
            self._is_ticking = True
            self.context.defer(self._tick_channels)


def _alarm_options(config: Config) -> AlarmOptions:
    alarm = config.alarm
    kept_us = microseconds(alarm.validity_period)
    return AlarmOptions("log" in alarm.actions, "publish" in alarm.actions, alarm.size_limit, kept_us)


def _of_standing(config: Config) -> tuple[object, ...]:
    """What connections, sessions and shared groups have got their options from."""
    groups, rights = config.broker.shared_subscription_group, config.authorization
    return config.mqtt, config.force_shutdown, config.zones, groups, rights.cache, rights.deny_action
