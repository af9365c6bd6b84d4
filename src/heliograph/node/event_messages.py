"""Events that are published as messages below `$events/`, as a part of a node."""

from collections.abc import Sequence

from heliograph.broker import hooks
from heliograph.broker.hook_order import EVENTS
from heliograph.config import Config
from heliograph.events.event_messages import EventMessages
from heliograph.node.kernel import KernelPart
from heliograph.node.known_clients import KnownClients
from heliograph.parts import Change, Hook, HookedPart


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
        """Publish those that are asked for."""
        broker = self._kernel.broker
        self._events = EventMessages(self._kernel.voice.outgoing, lambda: broker.now_us, self._clients.find)
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        """Other events."""
        return None if new.event_message == self._settings else Change(lambda: self._use(new))

    def _use(self, new: Config) -> None:
        self._settings = new.event_message
        self.hook_in()

    def wanted(self) -> Sequence[Hook]:
        """A callback for each event that the settings ask for."""
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
