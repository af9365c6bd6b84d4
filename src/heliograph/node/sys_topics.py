"""The `$SYS` topics as a part of a node."""

from collections.abc import Sequence
from datetime import datetime

from heliograph import __version__
from heliograph.broker import hooks
from heliograph.broker.hook_order import SYS_TOPICS
from heliograph.broker.hooks import Callback
from heliograph.config import Config, SysTopics
from heliograph.events.sys_topics import Numbers, SysTopicMessages
from heliograph.node.kernel import KernelPart
from heliograph.node.known_clients import KnownClients
from heliograph.observe.metric import Sample, counter, plain
from heliograph.parts import Change, Hook, HookedPart


class SysTopicsPart(HookedPart):
    """Publishes what the node says of itself; owned by the node.

    Args:
        numbers: The values of some metrics by their names.
    """

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
        """Publish from the first tick on."""
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
        """Other intervals, from the next tick on, and other events."""
        settings = new.sys_topics
        if settings == self._settings:
            return None
        return Change(lambda: self._use(settings))

    def _use(self, settings: SysTopics) -> None:
        self._settings = settings
        self._topics.use(settings)
        self.hook_in()

    def tick(self, uptime_us: int) -> None:
        """Publish what is due."""
        self._topics.tick(uptime_us)

    def samples(self) -> list[Sample]:
        """Rounds that were left out."""
        return plain(self._topics.statistics())

    def wanted(self) -> Sequence[Hook]:
        """The events that the settings ask for."""
        about, topics = self._settings.sys_event_messages, self._topics
        wanted: list[tuple[bool, str, Callback]] = [
            (about.client_connected, hooks.CLIENT_CONNECTED, topics.on_client_connected),
            (about.client_disconnected, hooks.CLIENT_DISCONNECTED, topics.on_client_disconnected),
            (about.client_subscribed, hooks.SESSION_SUBSCRIBED, topics.on_session_subscribed),
            (about.client_unsubscribed, hooks.SESSION_UNSUBSCRIBED, topics.on_session_unsubscribed),
        ]
        return [Hook(point, callback, SYS_TOPICS) for is_wanted, point, callback in wanted if is_wanted]
