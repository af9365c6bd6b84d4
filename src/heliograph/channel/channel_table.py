"""Every connection of a node, and which of them serves which client.

How a new one takes the session of an old one over is in `channel.admission`.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.client import ClientInfo
from heliograph.broker.faults import CONNECTIONS, TICKS, Faults
from heliograph.channel.handles import ChannelHandle

# Channels that look at the time in one turn: 1 ms.
_TICKED_AT_ONCE: Final = 1024


class ChannelTable:
    """Every channel of a node by its number, and the connected ones by client id; owned by the node."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._all: dict[int, ChannelHandle] = {}
        self._unticked: list[int] = []  # the channels of this round of ticks, by number,
        self._ticked_count: i64 = 0  # and how many of them have had theirs
        self._connected: dict[str, ChannelHandle] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, number: int, channel: ChannelHandle) -> None:
        self._all[number] = channel

    def remove(self, number: int) -> None:
        self._all.pop(number, None)

    def numbers(self) -> list[int]:
        return list(self._all)

    def all(self) -> list[ChannelHandle]:
        return list(self._all.values())

    def items(self) -> list[tuple[int, ChannelHandle]]:
        return list(self._all.items())

    def get(self, number: int) -> ChannelHandle | None:
        return self._all.get(number)

    def find(self, clientid: str) -> ChannelHandle | None:
        """The channel that serves a client id now."""
        return self._connected.get(clientid)

    def find_client(self, clientid: str) -> ClientInfo | None:
        """Who is connected with a client id now."""
        channel = self._connected.get(clientid)
        return None if channel is None else channel.client_info()

    def register(self, clientid: str, channel: ChannelHandle) -> None:
        self._connected[clientid] = channel

    def unregister(self, clientid: str, channel: ChannelHandle) -> None:
        """A channel stops serving a client id, unless another does already."""
        if self._connected.get(clientid) is channel:
            del self._connected[clientid]

    def tick(self, uptime_us: i64) -> bool:
        """Let channels look at the time, some at once: whether there are more, for the next call in another turn."""
        if self._ticked_count == len(self._unticked):
            self._unticked = list(self._all)
            self._ticked_count = 0
        end = min(self._ticked_count + _TICKED_AT_ONCE, i64(len(self._unticked)))
        while self._ticked_count < end:
            channel = self._all.get(self._unticked[self._ticked_count])
            self._ticked_count += 1
            if channel is None:  # its connection is gone
                continue
            try:
                channel.on_tick(uptime_us)
            except Exception as error:  # noqa: BLE001 - the others look at the time too, whatever it is
                self._faults.contain(TICKS, error, channel.abort)
        return self._ticked_count < len(self._unticked)

    def shut_down(self, code: int) -> None:
        for channel in list(self._all.values()):
            try:
                channel.shut_down(code)
            except Exception as error:  # noqa: BLE001 - the others are called
                self._faults.contain(CONNECTIONS, error, channel.abort)

    def statistics(self) -> dict[str, int]:
        return {"connections.open": len(self._all), "live_connections.count": len(self._connected)}
