"""What is known of the clients that are connected, for events that name a client by its id only."""

from collections.abc import Sequence

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import FORGOTTEN_CLIENTS, KNOWN_CLIENTS
from heliograph.config import Config
from heliograph.node.kernel import KernelPart
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
        """Note clients that come, if an event needs it."""
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        """Other events, which may need clients that are connected already."""
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
        """The client, if it is connected."""
        return self._clients.get(clientid)

    def wanted(self) -> Sequence[Hook]:
        """Before every other callback of a client that comes, and behind those of one that goes."""
        if not self._is_needed:
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


def _is_needed(config: Config) -> bool:
    events, about = config.event_message, config.sys_topics.sys_event_messages
    return any(
        (
            *(events.session_subscribed, events.session_unsubscribed, events.message_delivered, events.message_acked),
            *(events.message_dropped, events.delivery_dropped, about.client_subscribed, about.client_unsubscribed),
        )
    )
