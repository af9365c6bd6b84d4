"""What clients were refused lately, by client id: connections and subscriptions, for people who ask why one is silent.

Strangers send whatever client ids they like, so all of it is bounded, in clients and in bytes, and they have a share of
their own: what is remembered of clients that have sessions does not give way to them. Of one address the share of
strangers holds so many client ids, of which the oldest goes first.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.broker.client import ClientInfo

CONNECT: Final = "connect"
SUBSCRIBE: Final = "subscribe"

_KNOWN_MAX: Final = 4096  # clients
_KNOWN_BYTES: Final = 4 << 20
_STRANGERS_MAX: Final = 1024
_STRANGERS_BYTES: Final = 1 << 20
_OF_ADDRESS_MAX: Final = 64
_OF_CLIENT_MAX: Final = 8  # attempts that differ
_CLIENTID_MAX: Final = 256  # characters; nothing is remembered of longer ones, which cannot be cut and stay apart
_ABOUT_MAX: Final = 200
_CLIENT_BYTES: Final = 800
_ATTEMPT_BYTES: Final = 600


class Attempt:
    """Something that a client was refused, once or more often; times are microseconds since the epoch.

    Attributes:
        about: The user name of a CONNECT, the filter of a SUBSCRIBE; a long one is cut.
        peerhost: Where the last one came from.
    """

    def __init__(self, what: str, reason: str, about: str, now_us: i64) -> None:
        self.what = what
        self.reason = reason
        self.about = about
        self.peerhost = ""
        self.count: i64 = 0
        self.first_us: i64 = now_us
        self.last_us: i64 = now_us


class _OfClient:
    def __init__(self, peerhost: str) -> None:
        self.peerhost = peerhost  # of the first attempt: who it counts for
        self.attempts: dict[tuple[str, str, str], Attempt] = {}
        self.size_bytes: i64 = 0


class _Share:
    """Clients, those that were refused something last at the end; an address has so many of them, 0 for any number."""

    def __init__(self, clients_max: int, bytes_max: int, of_address_max: int) -> None:
        self.clients: dict[str, _OfClient] = {}
        self.size_bytes: i64 = 0
        self._clients_max: i64 = clients_max
        self._bytes_max: i64 = bytes_max
        self._of_address_max: i64 = of_address_max
        self._addresses: dict[str, dict[str, None]] = {}

    def note(self, clientid: str, attempt: tuple[str, str, str], peerhost: str, now_us: i64) -> None:
        client = self.clients.pop(clientid, None)
        if client is None:
            client = _OfClient(peerhost)
            self._resize(client, _CLIENT_BYTES + 4 * len(clientid))
            self._make_room(peerhost)
            if self._of_address_max:
                self._addresses.setdefault(peerhost, {})[clientid] = None
        self.clients[clientid] = client
        found = client.attempts.pop(attempt, None)
        if found is None:
            found = Attempt(attempt[0], attempt[1], attempt[2], now_us)
            if len(client.attempts) >= _OF_CLIENT_MAX:
                self._drop_attempt(client)
            self._resize(client, _ATTEMPT_BYTES + 4 * len(found.about))
        client.attempts[attempt] = found
        found.count += 1
        found.last_us = now_us
        found.peerhost = peerhost
        while self.size_bytes > self._bytes_max and len(self.clients) > 1:
            self.forget(next(iter(self.clients)))

    def forget(self, clientid: str) -> None:
        client = self.clients.pop(clientid, None)
        if client is None:
            return
        self.size_bytes -= client.size_bytes
        of_address = self._addresses.get(client.peerhost)
        if of_address is not None:
            of_address.pop(clientid, None)
            if not of_address:
                del self._addresses[client.peerhost]

    def _make_room(self, peerhost: str) -> None:
        of_address = self._addresses.get(peerhost)
        if of_address is not None and len(of_address) >= self._of_address_max:
            self.forget(next(iter(of_address)))
        if len(self.clients) >= self._clients_max:
            self.forget(next(iter(self.clients)))

    def _drop_attempt(self, client: _OfClient) -> None:
        oldest = next(iter(client.attempts))
        self._resize(client, -(_ATTEMPT_BYTES + 4 * len(oldest[2])))
        del client.attempts[oldest]

    def _resize(self, client: _OfClient, by_bytes: i64) -> None:
        client.size_bytes += by_bytes
        self.size_bytes += by_bytes


class RefusedClients:
    """What clients were refused lately; owned by the context of channels, and gone with the node.

    Args:
        is_known: Whether a client id has a session.
    """

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        self._known = _Share(_KNOWN_MAX, _KNOWN_BYTES, 0)
        self._strangers = _Share(_STRANGERS_MAX, _STRANGERS_BYTES, _OF_ADDRESS_MAX)

    def __len__(self) -> int:
        return len(self._known.clients) + len(self._strangers.clients)

    @property
    def size_bytes(self) -> int:
        """What it holds, about."""
        return int(self._known.size_bytes + self._strangers.size_bytes)

    def on_connect(self, client: ClientInfo, reason: str, now_us: i64) -> None:
        self._note(client, CONNECT, reason, client.username or "", now_us)

    def on_subscribe(self, client: ClientInfo, topic_filter: str, reason: str, now_us: i64) -> None:
        self._note(client, SUBSCRIBE, reason, topic_filter, now_us)

    def of(self, clientid: str) -> list[Attempt]:
        """What a client was refused, the newest first."""
        found: list[Attempt] = []
        for share in (self._known, self._strangers):
            client = share.clients.get(clientid)
            if client is not None:
                found.extend(client.attempts.values())
        found.sort(key=lambda one: int(one.last_us), reverse=True)
        return found

    def _note(self, client: ClientInfo, what: str, reason: str, about: str, now_us: i64) -> None:
        clientid = client.clientid
        if len(clientid) <= _CLIENTID_MAX:
            share = self._known if self._is_known(clientid) else self._strangers
            share.note(clientid, (what, reason, about[:_ABOUT_MAX]), client.peerhost, now_us)
