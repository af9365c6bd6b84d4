"""The `$SYS` topics and the events below `$events/` as parts of a node, and the clients that they name."""

from collections.abc import Sequence
from datetime import datetime

from heliograph import __version__
from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import EVENTS, FORGOTTEN_CLIENTS, KNOWN_CLIENTS, SYS_TOPICS
from heliograph.broker.hooks import Callback
from heliograph.config.services import SysTopics
from heliograph.config.settings import Config
from heliograph.events.event_messages import EventMessages
from heliograph.events.sys_topics import Numbers, SysTopicMessages
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Sample, counter, plain
from heliograph.parts import Change, Hook, HookedPart


class KnownClients(HookedPart):
    """Clients by their ids, from before an event of theirs until after the last one; kept where events need it."""

    name = "known_clients"
    roots = (
        *(f"event_message.{name}" for name in ("session_subscribed", "session_unsubscribed", "message_delivered")),
        *(f"event_message.{name}" for name in ("message_acked", "message_dropped", "delivery_dropped")),
        *(f"sys_topics.sys_event_messages.{name}" for name in ("client_subscribed", "client_unsubscribed")),
    )
    needs = ("kernel", "commits")

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        super().__init__(kernel.broker.hooks)
        self._kernel = kernel
        self._is_needed = _is_needed(config)
        self._clients: dict[str, ClientInfo] = {}

    async def start(self) -> None:
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        is_needed = _is_needed(new)
        return None if is_needed is self._is_needed else Change(lambda: self._use(is_needed))

    def _use(self, is_needed: bool) -> None:
        self._is_needed = is_needed
        self._clients.clear()
        self.hook_in()
        channels = self._kernel.context.channels
        for channel in channels.all() if is_needed else ():
            client = channel.client_info()
            if client is not None and channels.find(client.clientid) is channel:
                self._clients[client.clientid] = client

    def find(self, clientid: str) -> ClientInfo | None:
        return self._clients.get(clientid)

    def wanted(self) -> Sequence[Hook]:
        """Before every other callback of a client that comes, and behind those of one that goes."""
        if not self._is_needed:
            return ()
        return (
            Hook(hooks.CLIENT_CONNECTED, self._on_client_connected, KNOWN_CLIENTS),
            Hook(hooks.CLIENT_DISCONNECTED, self._on_client_disconnected, FORGOTTEN_CLIENTS),
        )

    def _on_client_connected(self, client: ClientInfo, *_args: object) -> None:
        self._clients[client.clientid] = client

    def _on_client_disconnected(self, client: ClientInfo, *_args: object) -> None:
        if self._clients.get(client.clientid) is client:  # another connection of the same client id stays
            del self._clients[client.clientid]


class SysTopicsPart(HookedPart):
    """Publishes what the node says of itself."""

    name = "sys_topics"
    metrics = (
        counter("sys_topics.rounds_skipped", "Rounds of `$SYS` that were left out since the last one was not through."),
    )
    needs = ("kernel", "known_clients", "commits")
    roots = ("sys_topics",)

    _topics: SysTopicMessages

    def __init__(self, config: Config, kernel: KernelPart, clients: KnownClients, numbers: Numbers) -> None:
        super().__init__(kernel.broker.hooks)
        self._node_name = config.node.name
        self._settings = config.sys_topics
        self._kernel = kernel
        self._clients = clients
        self._numbers = numbers

    async def start(self) -> None:
        broker = self._kernel.broker
        self._topics = SysTopicMessages(
            self._node_name,
            __version__,
            self._kernel.voice.outgoing,
            self._numbers,
            lambda: broker.now_us,
            lambda: datetime.now().astimezone().isoformat(timespec="seconds"),
            self._clients.find,
            self._settings,
        )
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        settings = new.sys_topics
        if settings == self._settings:
            return None
        return Change(lambda: self._use(settings))

    def _use(self, settings: SysTopics) -> None:
        self._settings = settings
        self._topics.use(settings)
        self.hook_in()

    def tick(self, uptime_us: int) -> None:
        self._topics.tick(uptime_us)

    def samples(self) -> list[Sample]:
        return plain(self._topics.statistics())

    def wanted(self) -> Sequence[Hook]:
        about, topics = self._settings.sys_event_messages, self._topics
        wanted: list[tuple[bool, str, Callback]] = [
            (about.client_connected, hooks.CLIENT_CONNECTED, topics.on_client_connected),
            (about.client_disconnected, hooks.CLIENT_DISCONNECTED, topics.on_client_disconnected),
            (about.client_subscribed, hooks.SESSION_SUBSCRIBED, topics.on_session_subscribed),
            (about.client_unsubscribed, hooks.SESSION_UNSUBSCRIBED, topics.on_session_unsubscribed),
        ]
        return [Hook(point, callback, SYS_TOPICS) for is_wanted, point, callback in wanted if is_wanted]


class EventMessagesPart(HookedPart):
    """Publishes the events that are asked for; owned by the node."""

    name = "event_messages"
    needs = ("kernel", "known_clients", "commits")
    roots = ("event_message",)

    _events: EventMessages

    def __init__(self, config: Config, kernel: KernelPart, clients: KnownClients) -> None:
        super().__init__(kernel.broker.hooks)
        self._settings = config.event_message
        self._kernel = kernel
        self._clients = clients

    async def start(self) -> None:
        broker = self._kernel.broker
        self._events = EventMessages(self._kernel.voice.outgoing, lambda: broker.now_us, self._clients.find)
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        return None if new.event_message == self._settings else Change(lambda: self._use(new))

    def _use(self, new: Config) -> None:
        self._settings = new.event_message
        self.hook_in()

    def wanted(self) -> Sequence[Hook]:
        asked, events = self._settings, self._events
        wanted = (
            (asked.client_connected, hooks.CLIENT_CONNECTED, events.on_client_connected),
            (asked.client_disconnected, hooks.CLIENT_DISCONNECTED, events.on_client_disconnected),
            (asked.session_subscribed, hooks.SESSION_SUBSCRIBED, events.on_session_subscribed),
            (asked.session_unsubscribed, hooks.SESSION_UNSUBSCRIBED, events.on_session_unsubscribed),
            (asked.message_delivered, hooks.MESSAGE_DELIVERED, events.on_message_delivered),
            (asked.message_acked, hooks.MESSAGE_ACKED, events.on_message_acked),
            (asked.message_dropped, hooks.MESSAGE_DROPPED, events.on_message_dropped),
            (asked.delivery_dropped, hooks.DELIVERY_DROPPED, events.on_delivery_dropped),
        )
        return [Hook(point, callback, EVENTS) for is_wanted, point, callback in wanted if is_wanted]


def _is_needed(config: Config) -> bool:
    events, about = config.event_message, config.sys_topics.sys_event_messages
    return any(
        (
            *(events.session_subscribed, events.session_unsubscribed, events.message_delivered, events.message_acked),
            *(events.message_dropped, events.delivery_dropped, about.client_subscribed, about.client_unsubscribed),
        )
    )
