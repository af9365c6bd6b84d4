"""The network between a client and the broker: bytes in pieces, late, and connections that break at any byte.

A `Connection` is one TCP connection with both of its ends. What travels when it breaks is lost; each end learns of it
at once, later, or (half open) only when it hears nothing for too long.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.session.outbox import Wire
from sim.loop import Agenda
from sim.machine import Machine

_HIGH_WATERMARK: Final = 3000
_LOW_WATERMARK: Final = 500
_UNSEEN: Final = 40_000_000  # how long a client does not notice that a connection is dead, at most


class Host(Protocol):
    """Who is told what comes: a client."""

    def on_data(self, connection: "Connection", data: bytes) -> None:
        """Bytes came."""

    def on_lost(self, connection: "Connection") -> None:
        """The connection is over."""


class Network:
    """What the connections of a simulation have in common.

    Args:
        machine: Where the broker runs.
        agenda: What happens beside it.
        chance: What decides delays and pieces.
        on_written: Told what the broker writes to whom, before it travels.
    """

    def __init__(
        self,
        machine: Machine,
        agenda: Agenda,
        chance: random.Random,
        on_written: Callable[["Connection", bytes], None],
    ) -> None:
        self.machine = machine
        self.agenda = agenda
        self.chance = chance
        self.on_written = on_written
        self.latency_us = chance.choice((100, 2_000, 40_000))
        self.breaks = chance.choice((0.0, 0.002, 0.02))  # how likely a connection breaks with a piece
        self.hiccups = 0.01  # how likely a piece takes much longer
        self.connections: list[Connection] = []
        self.breaks_count = 0

    def connect(self, host: Host, context: ChannelContext, options: ChannelOptions) -> "Connection":
        """A new connection to the broker."""
        connection = Connection(self, host, context, options)
        self.connections.append(connection)
        return connection

    def drop_all(self) -> None:
        """The broker's process is gone."""
        for connection in self.connections:
            connection.on_process_gone()
        self.connections.clear()


class Connection(Wire):
    """One connection; the broker's end is the `Wire` of its channel."""

    def __init__(self, network: Network, host: Host, context: ChannelContext, options: ChannelOptions) -> None:
        super().__init__()
        self._network = network
        self._host = host
        self._agenda = network.agenda
        self._arrived: deque[bytes] = deque()  # while the broker does not read
        self._is_paused = False
        self._unsent = 0
        self._is_congested = False
        self._up_us = self._down_us = 0  # nothing overtakes what was sent before
        self.is_broken = False  # nothing travels any more
        self.broker_has = True  # the broker's end stands
        self.client_has = True
        self.is_closing = False  # by the broker
        self.broker_lost_us = 0
        self._loop = network.machine.loop
        with network.machine.running():
            self._channel: Channel | None = Channel(context, self, options)
            self._channel.connection_made(Peer("192.0.2.1:50000", "192.0.2.2:1883"))

    # --- the client's end

    def send(self, data: bytes) -> None:
        """Send bytes to the broker; they arrive in pieces."""
        for piece in self._pieces(data):
            self._up_us = self._when(self._up_us)
            self._agenda.at(self._up_us, lambda piece=piece: self._arrive(piece))  # type: ignore[misc]  # the argument is never given

    def close(self) -> None:
        """By the broker: close behind the bytes sent before."""
        self._end(lambda: None)

    def hang_up(self) -> None:
        """By the client: close behind the bytes sent before."""
        self.client_has = False
        self._up_us = self._when(self._up_us)
        self._agenda.at(self._up_us, self._hung_up)

    def cut(self) -> None:
        """The network loses the connection."""
        if self.is_broken:
            return
        chance = self._network.chance
        self.is_broken = True
        self._network.breaks_count += 1
        for lose in (self._lose_broker, self._lose_client):
            how = chance.random()
            if how < 0.5:
                self._agenda.after(0, lose)
            elif how < 0.8 or lose == self._lose_client:
                self._agenda.after(chance.randrange(_UNSEEN), lose)

    def on_process_gone(self) -> None:
        """The broker's process is gone."""
        self.broker_has = False
        self._channel = None
        if not self.is_broken:
            self.is_broken = True
            self._agenda.after(self._network.chance.randrange(2_000_000), self._lose_client)

    # --- the broker's end

    def write(self, data: bytes) -> None:
        assert self.broker_has, "written behind the end of the connection"
        assert not self.is_closing, "written behind the end of the connection"
        self._network.on_written(self, data)
        for piece in self._pieces(data):
            self._unsent += len(piece)
            self._down_us = self._when(self._down_us)
            self._agenda.at(self._down_us, lambda piece=piece: self._deliver(piece))  # type: ignore[misc]  # the argument is never given
        self._look_at_congestion()

    def unsent_bytes(self) -> int:
        return self._unsent

    def abort(self) -> None:
        self._end(lambda: setattr(self, "is_broken", True))

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._read)

    # --- in between

    def _hung_up(self) -> None:
        if not self.is_broken:
            self._lose_broker()

    def _pieces(self, data: bytes) -> list[bytes]:
        chance = self._network.chance
        if len(data) < 2 or chance.random() < 0.5:
            return [data]
        cuts = sorted(chance.randrange(1, len(data)) for _ in range(chance.choice((1, 1, 3))))
        return [piece for piece in (data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)) if piece]

    def _when(self, behind_us: int) -> int:
        network = self._network
        delay = network.chance.randrange(network.latency_us)
        if network.chance.random() < network.hiccups:
            delay += network.chance.randrange(3_000_000)
        return max(behind_us, network.machine.clock.us + delay)

    def _may_break(self) -> None:
        network = self._network
        if network.breaks and network.chance.random() < network.breaks:
            self.cut()

    def _arrive(self, piece: bytes) -> None:
        self._may_break()
        if self.is_broken or not self.broker_has:
            return
        self._arrived.append(piece)
        with self._network.machine.running():
            self._read()

    def _read(self) -> None:
        while self._arrived and not self._is_paused and not self.is_closing and self._channel is not None:
            data = self._arrived.popleft()
            if self._network.chance.random() < 0.3:  # what has come meanwhile is read in one go
                data += b"".join(self._arrived)
                self._arrived.clear()
            self._channel.reader.receive(data)

    def _deliver(self, piece: bytes) -> None:
        self._may_break()
        if self.is_broken:
            return
        self._unsent -= len(piece)
        self._look_at_congestion()
        if self.client_has:
            self._host.on_data(self, piece)

    def _look_at_congestion(self) -> None:
        congested = self._unsent > (_LOW_WATERMARK if self._is_congested else _HIGH_WATERMARK)
        if congested != self._is_congested and self._channel is not None:
            self._is_congested = congested
            self._loop.call_soon(self._channel.on_congested, congested)

    def _end(self, before: Callable[[], object]) -> None:
        if self.is_closing or not self.broker_has:
            return
        self.is_closing = True
        before()
        self._loop.call_soon(self._lose_broker)
        self._down_us = self._when(self._down_us)
        self._agenda.at(self._down_us, self._lose_client)

    def _lose_broker(self) -> None:
        if self.broker_has:
            self.broker_has = False
            self.broker_lost_us = self._network.machine.clock.us
            channel, self._channel = self._channel, None
            if channel is not None:
                with self._network.machine.running():
                    channel.connection_lost()
            if self in self._network.connections:
                self._network.connections.remove(self)
            if not self.is_broken and self.client_has:
                self._agenda.at(self._when(self._down_us), self._lose_client)

    def _lose_client(self) -> None:
        if self.client_has:
            self.client_has = False
            self._host.on_lost(self)
            if not self.is_broken:
                self._agenda.at(self._when(self._up_us), self._lose_broker)
