"""The listeners of a node as a part of it; clients of those that leave get a goodbye, some in each turn."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from heliograph.broker.faults import CONNECTIONS
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.config.listeners import ListenerConfig as ListenerSettings
from heliograph.config.listeners import enabled
from heliograph.config.settings import Config, zone_of
from heliograph.mqtt import reason_codes as rc
from heliograph.node import announcements
from heliograph.node.client_attrs import ZoneAttributes
from heliograph.node.kernel import KernelPart
from heliograph.node.listener_changes import ListenerChanges
from heliograph.node.metrics import process as metrics
from heliograph.node.options import listener_options
from heliograph.observe.metric import Sample, labelled, plain
from heliograph.parts import Change, Part, each, every
from heliograph.rules.parts import EnvironmentPart
from heliograph.transport import open_files
from heliograph.transport.errors import ListenerBusyError, ListenerError, UnknownListenerError
from heliograph.transport.listener import Listener
from heliograph.transport.peer_certificate import PeerIdentity

_log = logging.getLogger(__name__)
_FILES_ALARM: Final = "open_files_exhausted"
_OF_CONNECTIONS: Final = (
    *("mqtt", "zones.*.mqtt", "zones.*.force_shutdown", "force_shutdown"),
    *("authorization.cache", "authorization.deny_action"),
)
_GOODBYE_S: Final = 3.0  # how long clients have to take their DISCONNECT


# Ending a conversation runs hooks and may publish a will.
_ENDED_AT_ONCE: Final = 16


class ListenersPart(Part):
    """Where clients connect; owned by the node. Last to start, and first to stop of what serves clients."""

    name = "listeners"
    metrics = metrics.LISTENERS
    needs = (
        "kernel",
        "sessions",
        "retained",
        *("address_limits", "flapping", "rewrite", "auto_subscribe", "sys_topics", "event_messages"),
        *("client_log", "sparkplug"),
        *("schema_validation", "message_transformation"),
        "rules",
        *("memory", "reader"),
        "authorization",
        "environment",
        "stored_bans",
    )
    roots = ("listeners", *_OF_CONNECTIONS)

    def __init__(self, config: Config, kernel: KernelPart, environment: EnvironmentPart) -> None:
        self._config = config
        self._kernel = kernel
        self._environment = environment
        self._attributes: ZoneAttributes | None = None
        self._named: Mapping[str, Listener] = {}  # as `tcp:default`
        self._leaving: LeavingListeners | None = None  # from its start on
        self._changing = asyncio.Lock()  # held while another configuration is made ready, or a listener is started

    @property
    def listeners(self) -> Sequence[Listener]:
        """Those that are enabled, also while they do not listen."""
        return list(self._named.values())

    async def start(self) -> None:
        """Let clients in.

        Raises:
            CertificateError: A certificate cannot be used.
            ListenerError: An address cannot be bound.
            VariformError: A client's attribute cannot be made as it is configured.
        """
        context = self._kernel.context
        self._attributes = ZoneAttributes(self._config, context.clock, self._environment.environment)
        self._leaving = LeavingListeners(context, _GOODBYE_S)
        self._named = make_listeners(self._config, context, self._attributes)
        tell_unreachable_limits(self._config)
        for listener in self.listeners:
            await listener.start()
        announcements.tell_listeners(self.listeners, self._config, context.broker.hooks)

    async def stop(self) -> None:
        """Stop accepting, send DISCONNECT, and wait a while for clients to read that."""
        announcements.tell_stop_begins(self._kernel.context.channels.statistics()["live_connections.count"])
        await every((self._stop_accepting, self._say_goodbye), lambda step: step())

    async def check(self, new: Config) -> Change:
        """Raises a group with every `ListenerError` of a certificate or address that cannot be used."""
        await self._changing.acquire()
        try:
            attributes, changes = await self._prepared(new)
        except BaseException:
            self._changing.release()
            raise
        return Change(partial(self._use, new, attributes, changes), partial(self._give_up, changes))

    async def _prepared(self, new: Config) -> tuple[ZoneAttributes, ListenerChanges]:
        context, attributes = self._kernel.context, self._attributes
        if attributes is None or not attributes.serves(new):
            counted = None if attributes is None else attributes.statistics()
            attributes = ZoneAttributes(new, context.clock, self._environment.environment, counted)
        changes = ListenerChanges(self._named)
        await changes.prepare(enabled(new.listeners), partial(_options, new, attributes), context)
        return attributes, changes

    async def start_listener(self, name: str) -> bool:
        """Start a listener (`tcp:default`) that was stopped; False if it accepts connections.

        Raises:
            ListenerError: There is none of that name, its certificate or address cannot be used, or a change of the
                configuration is under way.
        """
        before = self._find(name)
        if before.is_listening:
            return False
        async with self._changing:
            fresh = self._anew(before)
            await fresh.start()
            self._named = {**self._named, name: fresh}
        return True

    def stop_listener(self, name: str) -> bool:
        """Stop a listener until it or the node is started again, and end its connections; False if it does not accept.

        Raises:
            ListenerError: There is none of that name, or a change of the configuration is under way.
        """
        listener = self._find(name)
        if not listener.is_listening:
            return False
        listener.stop_accepting()
        self._leave(listener)
        return True

    def restart_listener(self, name: str) -> None:
        """Restart a listener, with certificates that are read again, and end its connections.

        Raises:
            ListenerError: There is none of that name, it was stopped, its certificate cannot be used, or a change of
                the configuration is under way.
        """
        before = self._find(name)
        if not before.is_listening:
            raise ListenerError(f"the listener {name} was stopped: start it")
        fresh = self._anew(before)
        fresh.begin(before.release())
        self._named = {**self._named, name: fresh}
        self._leave(before)

    def tick(self, uptime_us: int) -> None:
        leaving = () if self._leaving is None else (self._leaving.tick,)
        each((*(one.tick for one in self.listeners), *leaving, self._watch_open_files), lambda tick: tick(uptime_us))

    def places(self) -> Sequence[str]:
        return [f"mqtt {listener.address}" for listener in self.listeners if listener.is_listening]

    def samples(self) -> list[Sample]:
        found = [] if self._attributes is None else plain(self._attributes.statistics())
        for one in self.listeners:
            found += labelled("listeners", one.statistics(), one.kind, one.name)
        return found

    def _find(self, name: str) -> Listener:
        """The listener of that name, if it may be started or stopped now."""
        listener = self._named.get(name)
        if listener is None:
            known = ", ".join(self._named) or "none"
            raise UnknownListenerError(
                f"there is no listener {name!r} that is enabled; there are {known}. `ctl listeners enable` has one "
                "come that is configured"
            )
        if self._changing.locked():
            raise ListenerBusyError("the listeners are being changed; try again when that is done")
        return listener

    def _anew(self, one: Listener) -> Listener:
        options = _options(self._config, self._attributes, one.kind, one.name, one.settings)
        return Listener(one.kind, one.name, one.settings, self._kernel.context, *options)

    def _use(self, new: Config, attributes: ZoneAttributes, changes: ListenerChanges) -> None:
        self._changing.release()
        self._config, self._attributes = new, attributes
        self._named = changes.apply()
        for left in changes.leave:
            self._leave(left)
        announcements.tell_listeners(changes.come, new, self._kernel.context.broker.hooks)
        tell_unreachable_limits(new)

    def _give_up(self, changes: ListenerChanges) -> None:
        self._changing.release()
        changes.undo()

    def _leave(self, listener: Listener) -> None:
        if self._leaving is not None:
            self._leaving.add(listener)

    async def _stop_accepting(self) -> None:
        each(self.listeners, Listener.stop_accepting)

    async def _say_goodbye(self) -> None:
        self._kernel.context.channels.shut_down(rc.SERVER_SHUTTING_DOWN)
        await every(self.listeners, lambda listener: listener.close(_GOODBYE_S))
        if self._leaving is not None:
            await self._leaving.stop()

    def health(self) -> str:
        return ", ".join(f"{one.address} waits for open files" for one in self._waiting())

    def _waiting(self) -> list[Listener]:
        return [listener for listener in self.listeners if listener.statistics().get("out_of_files")]

    def _watch_open_files(self, _uptime_us: int) -> None:
        alarms = self._kernel.alarms
        waiting = [listener.address for listener in self._waiting()]
        if not waiting:
            alarms.deactivate(_FILES_ALARM)
            return
        text = (
            f"connections to {', '.join(waiting)} wait: {open_files.limit()} files may be open, of which "
            f"{open_files.reserve(open_files.limit())} are kept for storage. Raise that limit (ulimit -n), or bound "
            "connections with max_connections"
        )
        alarms.activate(_FILES_ALARM, text, {"open_files_max": open_files.limit()})


def make_listeners(config: Config, context: ChannelContext, attributes: ZoneAttributes) -> dict[str, Listener]:
    """Every listener that is enabled, by its name (`tcp:default`), none of them started.

    Raises:
        CertificateError: A certificate cannot be used.
    """
    return {
        f"{kind}:{name}": Listener(kind, name, settings, context, *_options(config, attributes, kind, name, settings))
        for kind, name, settings in enabled(config.listeners)
    }


def tell_unreachable_limits(config: Config) -> None:
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
    zone = settings.zone
    made = None if attributes is None else attributes.of_zone(zone)
    options = listener_options(config, f"{kind}:{name}", settings, None if made is None else made.of)
    mqtt = zone_of(config, zone).mqtt
    return options, PeerIdentity(mqtt.peer_cert_as_username, mqtt.peer_cert_as_clientid)


class LeavingListeners:
    """Ends the connections of listeners that have stopped while the node runs on; owned by the part of the listeners.

    Args:
        goodbye_s: How long clients have to take their DISCONNECT.
    """

    def __init__(self, context: ChannelContext, goodbye_s: float) -> None:
        self._context = context
        self._goodbye_s = goodbye_s
        self._tasks: dict[asyncio.Task[None], Listener] = {}

    def add(self, listener: Listener) -> None:
        name = f"{listener.kind}:{listener.name}"
        numbers = self._context.channels.numbers()  # those that come later are another listener's of that name
        task = asyncio.create_task(self._end(listener, name, numbers), name=f"{name} leaves")
        self._tasks[task] = listener
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    def tick(self, uptime_us: int) -> None:
        for listener in list(self._tasks.values()):
            listener.tick(uptime_us)

    async def stop(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end(self, listener: Listener, name: str, numbers: Sequence[int]) -> None:
        channels, ended = self._context.channels, 0
        for number in numbers:
            channel = channels.get(number)
            client = None if channel is None else channel.client_info()
            if channel is None or client is None or client.listener != name:
                continue
            self._context.broker.faults.run(CONNECTIONS, partial(channel.shut_down, rc.ADMINISTRATIVE_ACTION))
            ended += 1
            if ended % _ENDED_AT_ONCE == 0:
                await asyncio.sleep(0)
        await listener.close(self._goodbye_s)
