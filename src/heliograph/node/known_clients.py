"""What is known of the clients that are connected, for events that name a client by its id only."""

from collections.abc import Sequence

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import FORGOTTEN_CLIENTS, KNOWN_CLIENTS
from heliograph.broker.hooks import Hooks
from heliograph.config import Config
from heliograph.parts import Hook, HookedPart


class KnownClients(HookedPart):
    """Clients by their ids, from before an event of theirs until after the last one; kept where events need it."""

    name = "known_clients"
    roots = (
        *(f"event_message.{name}" for name in ("session_subscribed", "session_unsubscribed", "message_delivered")),
        *(f"event_message.{name}" for name in ("message_acked", "message_dropped", "delivery_dropped")),
        *(f"sys_topics.sys_event_messages.{name}" for name in ("client_subscribed", "client_unsubscribed")),
    )
    needs = ("kernel", "commits")

    def __init__(self, config: Config, hooks: Hooks) -> None:
        super().__init__(hooks)
        events, about = config.event_message, config.sys_topics.sys_event_messages
        self._is_needed = (
            *(events.session_subscribed, events.session_unsubscribed, events.message_delivered, events.message_acked),
            *(events.message_dropped, events.delivery_dropped, about.client_subscribed, about.client_unsubscribed),
        )
        self._clients: dict[str, ClientInfo] = {}

    async def start(self) -> None:
        """Note clients that come, if an event needs it."""
        self.hook_in()

    def find(self, clientid: str) -> ClientInfo | None:
        """The client, if it is connected."""
        return self._clients.get(clientid)

    def wanted(self) -> Sequence[Hook]:
        """Before every other callback of a client that comes, and behind those of one that goes."""
        if not any(self._is_needed):
            return ()
        return (
            Hook(hooks.CLIENT_CONNECTED, self._on_client_connected, KNOWN_CLIENTS),
            Hook(hooks.CLIENT_DISCONNECTED, self._on_client_disconnected, FORGOTTEN_CLIENTS),
        )

    def _on_client_connected(self, client: ClientInfo, *_told: object) -> None:
        self._clients[client.clientid] = client

    def _on_client_disconnected(self, client: ClientInfo, *_told: object) -> None:
        if self._clients.get(client.clientid) is client:  # another connection of the same client id stays
            del self._clients[client.clientid]
