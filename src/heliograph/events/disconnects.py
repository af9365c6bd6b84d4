"""Who was disconnected lately, when and why: the newest ones of all clients, for people who ask about one of them."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from heliograph.broker.client import ClientInfo
from heliograph.observe.bounded_log import short_text
from heliograph.observe.ring import Ring

_AT_ONCE: Final = 64


class Disconnect(NamedTuple):
    """The end of a connection. Times are microseconds since the epoch; a very long client id is cut, with a hash."""

    clientid: str
    at_us: int
    reason: str
    connected_at_us: int
    peername: str
    listener: str
    version: int


class DisconnectHistory:
    """Keeps the newest disconnects; owned by `DisconnectsPart`."""

    def __init__(self, size_max: int, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._size_max = size_max
        self._kept: Ring[Disconnect] = Ring(size_max)

    def resize(self, size_max: int) -> None:
        self._size_max = size_max
        self._kept.resize(size_max)

    def on_client_disconnected(self, client: ClientInfo, reason: str, *_more: object) -> None:
        self._kept.put(
            Disconnect(
                short_text(client.clientid),
                self._now_us(),
                reason,
                int(client.connected_at_us),
                client.peername,
                client.listener,
                int(client.version),
            )
        )

    def of(self, clientid: str) -> Iterator[tuple[int, Disconnect | None]]:
        """Those of a client, the oldest first, with their numbers among all.

        None stands for a piece of work that found none: it was looked at up to that number.
        """
        wanted, number = short_text(clientid), 0
        while looked := list(self._kept.after(number, _AT_ONCE)):
            number = looked[-1][0]
            found = [(at, one) for at, one in looked if one.clientid == wanted]
            yield from found or ((number, None),)

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"DisconnectHistory({len(self._kept)} of {self._size_max})"
