"""One client's connection over TLS, or where there is no `epoll`: joins an asyncio transport to a channel."""

import asyncio
from collections.abc import Callable
from typing import cast

from heliograph.channel.channel import Channel
from heliograph.session.outbox import Wire
from heliograph.transport.connections import Connections
from heliograph.transport.pending_connection import PendingConnection


class ChannelLink:
    """The transport's half of a connection; mixed into its asyncio protocol, which sets and clears the attributes."""

    __slots__ = ()

    _connections: Connections
    _transport: asyncio.Transport | None
    _channel: Channel | None

    def eof_received(self) -> None: ...

    def pause_writing(self) -> None:
        self._connections.congest(self, self._channel)
        if self._channel is not None:
            self._channel.on_congested(True)

    def resume_writing(self) -> None:
        self._connections.relieve(self)
        if self._channel is not None:
            self._channel.on_congested(False)

    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


class Connection(ChannelLink, Wire):
    """A view of one connection, and its asyncio protocol; made when it is accepted, gone when it is closed."""

    # `data_received` is a method of the channel's reader: between the socket and compiled code stands no Python frame.
    __slots__ = ("_channel", "_connections", "_pending", "_transport", "data_received")

    def __init__(self, connections: Connections, pending: PendingConnection) -> None:
        self._connections = connections
        self._pending: PendingConnection | None = pending
        self._transport: asyncio.Transport | None = None
        self._channel: Channel | None = None
        self.data_received: Callable[[bytes], None] = ignore

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connections, pending = self._connections, self._pending
        if pending is None:
            return
        self._pending = None
        self._transport = cast("asyncio.Transport", transport)
        peer = connections.welcome(self, pending)
        connections.identify(peer, self._transport)
        self._transport.set_write_buffer_limits(high=connections.high_watermark)
        channel = Channel(connections.context, self, connections.options)
        self._channel = channel
        self.data_received = channel.reader.receive
        self._transport.set_protocol(cast("asyncio.Protocol", self))  # the event loop looks up `data_received` here
        channel.connection_made(peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.data_received = ignore
        channel = self._channel
        # Channel and connection refer to each other; parted, they are freed at once and not by the garbage collector.
        self._channel = None
        self._transport = None
        self._connections.lose(self, channel)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def writer(self) -> Callable[[bytes], object]:
        return self.write if self._transport is None else self._transport.write

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def ignore(data: bytes) -> None:
    """Bytes for a connection that is gone."""
