"""One client's connection over TCP or a Unix socket: joins its socket to a channel, with nothing between the two.

Written for mypyc, like the packages below.
"""

from heliograph.channel.channel import Channel
from heliograph.channel.reader import Reader
from heliograph.transport.connections import Connections
from heliograph.transport.pending_connection import PendingConnection
from heliograph.transport.sockets import Poller, SocketTransport


class DirectConnection(SocketTransport):
    """A view of one connection; made when it is accepted, gone when it is closed."""

    def __init__(self, poller: Poller, connections: Connections, pending: PendingConnection) -> None:
        super().__init__(poller, pending.connection)
        self._connections = connections
        self._pending: PendingConnection | None = pending
        self._channel: Channel | None = None
        self._reader: Reader | None = None  # the channel's

    def on_connected(self) -> None:
        connections, pending = self._connections, self._pending
        if pending is None:
            return
        self._pending = None
        peer = connections.welcome(self, pending)
        self.set_write_buffer_limits(connections.high_watermark)
        channel = Channel(connections.context, self, connections.options)
        self._channel = channel
        self._reader = channel.reader
        channel.connection_made(peer)

    def on_bytes(self, data: bytes) -> None:
        reader = self._reader
        if reader is not None:
            reader.take(data)

    def on_end(self) -> None:
        """What waits for a commit is sent before the connection is closed: a peer may end sending, and read on."""
        reader = self._reader
        if reader is None:
            self.close()
        else:
            reader.outbox.close_after_flush()

    def on_congested(self, congested: bool) -> None:
        if congested:
            self._connections.congest(self, self._channel)
        else:
            self._connections.relieve(self)
        if self._channel is not None:
            self._channel.on_congested(congested)

    def on_lost(self, error: Exception | None) -> None:
        """Tell the channel, and part from it: they are freed at once then, and not by the garbage collector."""
        channel = self._channel
        self._channel = None
        self._reader = None
        self._connections.lose(self, channel)
