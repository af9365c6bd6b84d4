"""The services around the kernel, built from the configuration and hooked in where they are wanted.

A service that is not configured has no callback anywhere and costs nothing.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol

from heliograph import __version__
from heliograph.access.banned import BanList
from heliograph.access.flapping import FlappingDetector
from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import (
    ACCESS,
    AUTO_SUBSCRIBE,
    DELAYED,
    EVENTS,
    FORGOTTEN_CLIENTS,
    KNOWN_CLIENTS,
    LOG,
    REWRITE,
    SPARKPLUG,
    SYS_TOPICS,
)
from heliograph.channel.context import ChannelContext
from heliograph.config import Config, FlappingDetect
from heliograph.node.bans import BansPart
from heliograph.node.delayed import DelayedPart
from heliograph.node.drop_watch import DropWatch
from heliograph.node.kernel import KernelPart, Voice
from heliograph.node.metrics import services as metrics
from heliograph.node.options import levels_max
from heliograph.node.schemas import EnvironmentPart, make_sparkplug
from heliograph.observe.client_log import ClientLog, ConflictWatch
from heliograph.observe.event_messages import EventMessages
from heliograph.observe.metrics import Lifecycle
from heliograph.observe.sys_topics import SysTopics
from heliograph.parts import Part, each
from heliograph.policies.auto_subscribe import AutomaticSubscriptions
from heliograph.policies.delayed import DelayedMessages
from heliograph.policies.rewrite import TopicRewrite
from heliograph.rules.environment import Environment

_log = logging.getLogger(__name__)
_clients_log = logging.getLogger("heliograph.clients")


class _Counting(Protocol):
    """Whatever counts."""

    def statistics(self) -> dict[str, int]:
        """Counters and sizes."""


@dataclass(frozen=True, slots=True)
class _Hook:
    """A callback and where it belongs; `wants` and `rewrite_only` as `hooks.HookPoint.add` takes them."""

    point: str
    callback: hooks.Callback
    priority: int
    wants: Callable[[str], bool] | None = None
    rewrite_only: hooks.RewriteOnly | None = None


class ConnectedClients:
    """What is known of the clients that are connected; kept only where an event tells it of a bare client id."""

    def __init__(self) -> None:
        self._clients: dict[str, ClientInfo] = {}

    def find(self, clientid: str) -> ClientInfo | None:
        """The client, if it is connected."""
        return self._clients.get(clientid)

    def on_client_connected(self, client: ClientInfo, *_told: object) -> None:
        """Callback of `client.connected`."""
        self._clients[client.clientid] = client

    def on_client_disconnected(self, client: ClientInfo, *_told: object) -> None:
        """Callback of `client.disconnected`; another connection of the same client id stays."""
        if self._clients.get(client.clientid) is client:
            del self._clients[client.clientid]


class Services:
    """Every service of a node, from `start` to `stop`; owned by `ServicesPart`.

    Args:
        config: The whole configuration.
        context: The node's kernel.
        voice: What the node says of itself.
        bans: Who may not connect.
        delayed: Messages that are published later.
        environment: Where functions of rules find what Sparkplug births said.
        numbers: Every counter and size of the node, these services' own included.
        now_s: The time, in seconds since the epoch.
    """

    def __init__(
        self,
        config: Config,
        context: ChannelContext,
        voice: Voice,
        bans: BanList,
        delayed: DelayedMessages,
        environment: Environment,
        numbers: Callable[[], Mapping[str, float]],
        now_s: Callable[[], int],
    ) -> None:
        broker = context.broker
        levels = levels_max(config)
        self._hooks = broker.hooks
        self._hooked: list[_Hook] = []
        self._config = config
        self._bans = bans
        self._delayed = delayed
        outgoing, alarms = voice.outgoing, voice.alarms
        self._lifecycle = Lifecycle()
        self._client_log = ClientLog(_clients_log, context.clock)
        self._conflicts = ConflictWatch(alarms, _clients_log, context.clock)
        self._drops = DropWatch(broker.drops, alarms, _clients_log, context.clock)
        self._clients = ConnectedClients()
        self._flapping = FlappingDetector(_zones(config), bans, now_s, context.clock, _log)
        self._rewrite = TopicRewrite(broker, config.rewrite, levels, _log)
        self._auto_subscribe = AutomaticSubscriptions(
            config.auto_subscribe.topics, context.channels.find, levels, _log, context.clock
        )
        self._sys_topics = SysTopics(
            config.node.name,
            __version__,
            outgoing,
            numbers,
            lambda: broker.now_us,
            lambda: datetime.now().astimezone().isoformat(timespec="seconds"),
            self._clients.find,
            config.sys_topics.sys_msg_interval,
            config.sys_topics.sys_heartbeat_interval,
        )
        self._sparkplug = make_sparkplug(config, environment, voice.publisher, context.clock)
        self._events = EventMessages(outgoing, lambda: broker.now_us, self._clients.find)

    def start(self) -> None:
        """Hook in what is wanted."""
        self._hooked = self._wanted()
        for hook in self._hooked:
            self._hooks.point(hook.point).add(hook.callback, hook.priority, hook.wants, hook.rewrite_only)

    def stop(self) -> None:
        """Take every callback out again."""
        for hook in self._hooked:
            self._hooks.point(hook.point).remove(hook.callback)
        self._hooked = []

    def tick(self, uptime_us: int) -> None:
        """Do what is due.

        Args:
            uptime_us: Microseconds on the monotonic clock.
        """
        sys_topics = partial(self._sys_topics.tick, uptime_us)
        ticks: list[Callable[[], None]] = [self._flapping.expire, sys_topics, self._conflicts.tick, self._drops.tick]
        each(ticks, lambda tick: tick())

    def statistics(self) -> dict[str, int]:
        """Counters and sizes of all services."""
        numbers: dict[str, int] = {}
        parts: list[_Counting] = [
            *([] if self._sparkplug is None else [self._sparkplug]),
            self._lifecycle,
            self._sys_topics,
            self._conflicts,
            self._drops,
            self._flapping,
            self._rewrite,
            self._auto_subscribe,
        ]
        for part in parts:
            numbers.update(part.statistics())
        return numbers

    def _wanted(self) -> list[_Hook]:
        rewrite, delayed = self._rewrite, self._delayed
        wanted = [_Hook(hooks.CLIENT_CONNECT, self._bans.on_client_connect, ACCESS), *self._lifecycle_hooks()]
        if any(zone.enable for zone in _zones(self._config).values()):
            wanted.append(_Hook(hooks.CLIENT_DISCONNECTED, self._flapping.on_client_disconnected, ACCESS))
        if self._config.delayed.enable:
            wanted.append(_Hook(hooks.MESSAGE_PUBLISH, delayed.on_message_publish, DELAYED, delayed.wants))
        if rewrite.rewrites_messages:
            callback = rewrite.on_message_publish
            wanted.append(_Hook(hooks.MESSAGE_PUBLISH, callback, REWRITE, rewrite.wants, rewrite.rewrite_only))
        sparkplug = self._sparkplug
        if sparkplug is not None:
            wanted.append(_Hook(hooks.MESSAGE_PUBLISH, sparkplug.on_message_publish, SPARKPLUG, sparkplug.wants))
        if rewrite.rewrites_filters:
            wanted.append(_Hook(hooks.CLIENT_SUBSCRIBE, rewrite.on_client_subscribe, REWRITE))
            wanted.append(_Hook(hooks.CLIENT_UNSUBSCRIBE, rewrite.on_client_unsubscribe, REWRITE))
        if self._config.auto_subscribe.topics:
            wanted.append(_Hook(hooks.CLIENT_CONNECTED, self._auto_subscribe.on_client_connected, AUTO_SUBSCRIBE))
        return [*wanted, *self._event_hooks(), *self._log_hooks()]

    def _lifecycle_hooks(self) -> list[_Hook]:
        lifecycle = self._lifecycle
        return [
            _Hook(hooks.CLIENT_CONNECTED, lifecycle.on_client_connected, SYS_TOPICS),
            _Hook(hooks.CLIENT_DISCONNECTED, lifecycle.on_client_disconnected, SYS_TOPICS),
            _Hook(hooks.SESSION_CREATED, lifecycle.on_session_created, SYS_TOPICS),
            _Hook(hooks.SESSION_RESUMED, lifecycle.on_session_resumed, SYS_TOPICS),
            _Hook(hooks.SESSION_TAKENOVER, lifecycle.on_session_takenover, SYS_TOPICS),
            _Hook(hooks.SESSION_DISCARDED, lifecycle.on_session_discarded, SYS_TOPICS),
            _Hook(hooks.SESSION_TERMINATED, lifecycle.on_session_terminated, SYS_TOPICS),
        ]

    def _log_hooks(self) -> list[_Hook]:
        told = self._client_log
        found = [_Hook(hooks.CLIENT_DISCONNECTED, self._conflicts.on_client_disconnected, LOG)]
        if told.tells_clients:
            found.append(_Hook(hooks.CLIENT_CONNECTED, told.on_client_connected, LOG))
            found.append(_Hook(hooks.CLIENT_DISCONNECTED, told.on_client_disconnected, LOG))
            found.append(_Hook(hooks.CLIENT_CHECK_AUTHZ_COMPLETE, told.on_check_authz_complete, LOG))
        if told.tells_subscriptions:
            found.append(_Hook(hooks.SESSION_SUBSCRIBED, told.on_session_subscribed, LOG))
            found.append(_Hook(hooks.SESSION_UNSUBSCRIBED, told.on_session_unsubscribed, LOG))
        return found

    def _event_hooks(self) -> list[_Hook]:
        about, wanted = self._config.sys_topics.sys_event_messages, self._config.event_message
        sys, events = self._sys_topics, self._events
        optional: list[tuple[bool, _Hook]] = [
            (about.client_connected, _Hook(hooks.CLIENT_CONNECTED, sys.on_client_connected, SYS_TOPICS)),
            (about.client_disconnected, _Hook(hooks.CLIENT_DISCONNECTED, sys.on_client_disconnected, SYS_TOPICS)),
            (about.client_subscribed, _Hook(hooks.SESSION_SUBSCRIBED, sys.on_session_subscribed, SYS_TOPICS)),
            (about.client_unsubscribed, _Hook(hooks.SESSION_UNSUBSCRIBED, sys.on_session_unsubscribed, SYS_TOPICS)),
            (wanted.client_connected, _Hook(hooks.CLIENT_CONNECTED, events.on_client_connected, EVENTS)),
            (wanted.client_disconnected, _Hook(hooks.CLIENT_DISCONNECTED, events.on_client_disconnected, EVENTS)),
            (wanted.session_subscribed, _Hook(hooks.SESSION_SUBSCRIBED, events.on_session_subscribed, EVENTS)),
            (wanted.session_unsubscribed, _Hook(hooks.SESSION_UNSUBSCRIBED, events.on_session_unsubscribed, EVENTS)),
            (wanted.message_delivered, _Hook(hooks.MESSAGE_DELIVERED, events.on_message_delivered, EVENTS)),
            (wanted.message_acked, _Hook(hooks.MESSAGE_ACKED, events.on_message_acked, EVENTS)),
            (wanted.message_dropped, _Hook(hooks.MESSAGE_DROPPED, events.on_message_dropped, EVENTS)),
            (wanted.delivery_dropped, _Hook(hooks.DELIVERY_DROPPED, events.on_delivery_dropped, EVENTS)),
        ]
        found = [hook for is_wanted, hook in optional if is_wanted]
        if any(hook.point not in (hooks.CLIENT_CONNECTED, hooks.CLIENT_DISCONNECTED) for hook in found):
            # Added before the first callback that asks for it, and forgotten after the last.
            found.append(_Hook(hooks.CLIENT_CONNECTED, self._clients.on_client_connected, KNOWN_CLIENTS))
            found.append(_Hook(hooks.CLIENT_DISCONNECTED, self._clients.on_client_disconnected, FORGOTTEN_CLIENTS))
        return found


class ServicesPart(Part):
    """The services around the kernel as a part of a node; owned by the node.

    Args:
        numbers: Every counter and size of the node.
    """

    name = "services"
    metrics = metrics.SERVICES
    needs = ("kernel", "bans", "delayed", "environment", "commits")
    roots = (
        "sys_topics",
        "event_message",
        "rewrite",
        "auto_subscribe",
        "flapping_detect",
        "zones.*.flapping_detect",
    )

    def __init__(
        self,
        config: Config,
        kernel: KernelPart,
        bans: BansPart,
        delayed: DelayedPart,
        environment: EnvironmentPart,
        numbers: Callable[[], Mapping[str, float]],
    ) -> None:
        self._config = config
        self._kernel = kernel
        self._bans = bans
        self._delayed = delayed
        self._environment = environment
        self._numbers = numbers
        self._services: Services | None = None

    async def start(self) -> None:
        """Hook in what is wanted."""
        self._services = Services(
            self._config,
            self._kernel.context,
            self._kernel.voice,
            self._bans.bans,
            self._delayed.messages,
            self._environment.environment,
            self._numbers,
            lambda: int(time.time()),
        )
        self._services.start()

    async def stop(self) -> None:
        """Take every callback out again."""
        if self._services is not None:
            self._services.stop()

    def tick(self, uptime_us: int) -> None:
        """Do what is due."""
        if self._services is not None:
            self._services.tick(uptime_us)

    def statistics(self) -> dict[str, int]:
        """Counters and sizes of all services."""
        return {} if self._services is None else self._services.statistics()


def _zones(config: Config) -> Mapping[str, FlappingDetect]:
    return {"default": config.flapping_detect} | {name: zone.flapping_detect for name, zone in config.zones.items()}
