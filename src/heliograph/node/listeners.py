"""The listeners of a node as a part of it, made from the configuration."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.config import Config
from heliograph.config.listeners import ListenerConfig as ListenerSettings
from heliograph.config.listeners import enabled
from heliograph.config.zones import zone_of
from heliograph.mqtt import reason_codes as rc
from heliograph.node import announcements
from heliograph.node.client_attrs import ZoneAttributes
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics import process as metrics
from heliograph.node.options import listener_options
from heliograph.observe.metric import Sample, labelled, plain
from heliograph.parts import Change, Part, each, every
from heliograph.rules.parts import EnvironmentPart
from heliograph.transport import open_files
from heliograph.transport.listener import Listener
from heliograph.transport.peer_certificate import PeerIdentity

_log = logging.getLogger(__name__)

_FILES_ALARM: Final = "too_many_open_files"
_OF_CONNECTIONS: Final = (
    *("mqtt", "zones.*.mqtt", "zones.*.force_shutdown", "force_shutdown"),
    *("authorization.cache", "authorization.deny_action"),
)
_GOODBYE_S: Final = 3.0  # how long clients have to take their DISCONNECT


class ListenersPart(Part):
    """Where clients connect; owned by the node. Last to start, and first to stop of what serves clients.

    Attributes:
        listeners: Those that were made, also while they do not listen.
    """

    name = "listeners"
    metrics = metrics.LISTENERS
    needs = (
        "kernel",
        "sessions",
        "retained",
        *("flapping", "rewrite", "auto_subscribe", "sys_topics", "event_messages", "client_log", "sparkplug"),
        *("schema_validation", "message_transformation"),
        "rules",
        *("memory", "reader"),
        "authorization",
        "environment",
    )
    roots = ("listeners", *_OF_CONNECTIONS)

    def __init__(self, config: Config, kernel: KernelPart, environment: EnvironmentPart) -> None:
        self._config = config
        self._kernel = kernel
        self._environment = environment
        self._attributes: ZoneAttributes | None = None
        self.listeners: Sequence[Listener] = ()

    async def start(self) -> None:
        """Let clients in.

        Raises:
            CertificateError: A certificate cannot be used.
            ListenerError: An address cannot be bound.
            VariformError: A client's attribute cannot be made as it is configured.
        """
        context = self._kernel.context
        self._attributes = ZoneAttributes(self._config, context.clock, self._environment.environment)
        self.listeners = make_listeners(self._config, context, self._attributes)
        tell_unreachable_limits(self._config)
        for listener in self.listeners:
            await listener.start()
        announcements.tell_listeners(self.listeners, context.broker.hooks)

    async def stop(self) -> None:
        """Stop accepting, send DISCONNECT, and wait a while for clients to read that."""
        announcements.tell_stop_begins(self._kernel.context.channels.statistics()["live_connections.count"])
        await every((self._stop_accepting, self._say_goodbye), lambda step: step())

    async def check(self, new: Config) -> Change:
        """What holds for connections that come from now on; those that stand are not touched.

        Raises:
            ExceptionGroup: Every `CertificateError` of a listener whose certificate cannot be used.
        """
        listeners = {(one.kind, one.name): one for one in self.listeners}
        made: list[Callable[[], None]] = []

        def prepare(one: Listener, to: ListenerSettings) -> None:
            made.append(one.prepare(to, *_options(new, self._attributes, one.kind, one.name, to)))

        found = [partial(prepare, listeners[kind, name], to) for kind, name, to in enabled(new.listeners)]
        each(found, lambda make: make())
        return Change(partial(each, made, lambda renew: renew()))

    def tick(self, uptime_us: int) -> None:
        """Cut what takes too long, and see whether connections wait for open files."""
        each((*(one.tick for one in self.listeners), self._watch_open_files), lambda tick: tick(uptime_us))

    def places(self) -> Sequence[str]:
        """The addresses of all listeners."""
        return [f"mqtt {listener.address}" for listener in self.listeners]

    def samples(self) -> list[Sample]:
        """Counts of each listener, and of attributes that were made."""
        found = [] if self._attributes is None else plain(self._attributes.statistics())
        for one in self.listeners:
            found += labelled("listeners", one.statistics(), one.kind, one.name)
        return found

    async def _stop_accepting(self) -> None:
        await every(self.listeners, Listener.stop_accepting)

    async def _say_goodbye(self) -> None:
        self._kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
        await every(self.listeners, lambda listener: listener.close(_GOODBYE_S))

    def health(self) -> str:
        """Which listeners have no open files left."""
        return ", ".join(f"{one.address} waits for open files" for one in self._waiting())

    def _waiting(self) -> list[Listener]:
        return [listener for listener in self.listeners if listener.statistics().get("out_of_files")]

    def _watch_open_files(self, _uptime_us: int) -> None:
        """Raise an alarm while connections wait for open files."""
        alarms = self._kernel.alarms
        waiting = [listener.address for listener in self._waiting()]
        if not waiting:
            alarms.deactivate(_FILES_ALARM)
            return
        told = (
            f"connections to {', '.join(waiting)} wait: {open_files.limit()} files may be open, of which "
            f"{open_files.reserve(open_files.limit())} are kept for storage. Raise that limit (ulimit -n), or bound "
            "connections with max_connections"
        )
        alarms.activate(_FILES_ALARM, told, {"open_files_max": open_files.limit()})


def make_listeners(config: Config, context: ChannelContext, attributes: ZoneAttributes) -> list[Listener]:
    """Every listener that is enabled, none of them started.

    Args:
        attributes: Makes the attributes of clients.

    Raises:
        CertificateError: A certificate cannot be used.
    """
    return [
        Listener(kind, name, settings, context, *_options(config, attributes, kind, name, settings))
        for kind, name, settings in enabled(config.listeners)
    ]


def tell_unreachable_limits(config: Config) -> None:
    """Warn of `max_connections` that the limit of open files does not allow."""
    wanted = [(f"{kind}:{name}", one.max_connections) for kind, name, one in enabled(config.listeners)]
    bounded = {name: most for name, most in wanted if most is not None}
    files_max = open_files.limit()
    room = files_max - open_files.reserve(files_max)
    if sum(bounded.values()) > room:
        _log.warning(
            "max_connections of %s cannot be reached: %d files may be open, which leaves %d for connections. "
            "Raise that limit (ulimit -n, LimitNOFILE in systemd), or lower max_connections",
            ", ".join(bounded),
            files_max,
            room,
        )


def _options(
    config: Config, attributes: ZoneAttributes | None, kind: str, name: str, settings: ListenerSettings
) -> tuple[ChannelOptions, PeerIdentity]:
    """What the channels of a listener are given, and who its clients are by their certificates."""
    zone = settings.zone
    made = None if attributes is None else attributes.of_zone(zone)
    options = listener_options(config, f"{kind}:{name}", settings, None if made is None else made.of)
    mqtt = zone_of(config, zone).mqtt
    return options, PeerIdentity(mqtt.peer_cert_as_username, mqtt.peer_cert_as_clientid)
