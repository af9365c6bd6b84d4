"""The `$SYS` topics as a part of a node, with the counters of clients and sessions that they tell."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from heliograph import __version__
from heliograph.broker import hooks
from heliograph.broker.hook_order import SYS_TOPICS
from heliograph.broker.hooks import Callback
from heliograph.config import Config
from heliograph.events.sys_topics import SysTopicMessages
from heliograph.node.kernel import KernelPart
from heliograph.node.known_clients import KnownClients
from heliograph.observe.metric import counter
from heliograph.observe.metrics import Lifecycle
from heliograph.parts import Change, Hook, HookedPart

_LIFE: Final = (
    ("client.connected", "Clients that were connected."),
    ("client.disconnected", "Clients that were connected and no longer are."),
    ("session.created", "Sessions that began."),
    ("session.resumed", "Sessions that went on with a new connection."),
    ("session.takenover", "Connections that lost their session to another one."),
    ("session.discarded", "Sessions that ended since their clients wanted new ones."),
    ("session.terminated", "Sessions that ended."),
)


class SysTopicsPart(HookedPart):
    """Publishes what the node says of itself; owned by the node.

    Args:
        numbers: Every counter and size of the node.
    """

    name = "sys_topics"
    metrics = (
        *(counter(name, meaning) for name, meaning in _LIFE),
        counter("sys_topics.rounds_skipped", "Rounds of `$SYS` that were left out since the last one was not through."),
    )
    needs = ("kernel", "known_clients", "commits")
    roots = ("sys_topics",)
    live = ("sys_topics.sys_msg_interval", "sys_topics.sys_heartbeat_interval")

    _topics: SysTopicMessages

    def __init__(
        self, config: Config, kernel: KernelPart, clients: KnownClients, numbers: Callable[[], Mapping[str, float]]
    ) -> None:
        super().__init__(kernel.broker.hooks)
        self._node_name = config.node.name
        self._settings = config.sys_topics
        self._kernel = kernel
        self._clients = clients
        self._numbers = numbers
        self._lifecycle = Lifecycle()

    async def start(self) -> None:
        """Count, and publish from the first tick on."""
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

    def check(self, new: Config) -> Change | None:
        """Other intervals, from the next tick on."""
        settings = new.sys_topics
        if settings == self._settings:
            return None
        return Change(lambda: self._topics.use(settings))

    def tick(self, uptime_us: int) -> None:
        """Publish what is due."""
        self._topics.tick(uptime_us)

    def statistics(self) -> dict[str, int]:
        """What happened to clients and sessions, and rounds that were left out."""
        return {**self._lifecycle.statistics(), **self._topics.statistics()}

    def wanted(self) -> Sequence[Hook]:
        """What is counted, and the events that the settings ask for."""
        counted, about, topics = self._lifecycle, self._settings.sys_event_messages, self._topics
        wanted: list[tuple[bool, str, Callback]] = [
            (True, hooks.CLIENT_CONNECTED, counted.on_client_connected),
            (True, hooks.CLIENT_DISCONNECTED, counted.on_client_disconnected),
            (True, hooks.SESSION_CREATED, counted.on_session_created),
            (True, hooks.SESSION_RESUMED, counted.on_session_resumed),
            (True, hooks.SESSION_TAKENOVER, counted.on_session_takenover),
            (True, hooks.SESSION_DISCARDED, counted.on_session_discarded),
            (True, hooks.SESSION_TERMINATED, counted.on_session_terminated),
            (about.client_connected, hooks.CLIENT_CONNECTED, topics.on_client_connected),
            (about.client_disconnected, hooks.CLIENT_DISCONNECTED, topics.on_client_disconnected),
            (about.client_subscribed, hooks.SESSION_SUBSCRIBED, topics.on_session_subscribed),
            (about.client_unsubscribed, hooks.SESSION_UNSUBSCRIBED, topics.on_session_unsubscribed),
        ]
        return [Hook(point, callback, SYS_TOPICS) for is_wanted, point, callback in wanted if is_wanted]
