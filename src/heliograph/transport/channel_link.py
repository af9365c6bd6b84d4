"""What every connection does with its asyncio transport, whatever stands between that and the channel."""

import asyncio

from heliograph.channel.channel import Channel
from heliograph.transport.connections import Connections


class ChannelLink:
    """The transport's half of a connection; mixed into its asyncio protocol, which sets and clears the attributes."""

    __slots__ = ()

    _connections: Connections
    _transport: asyncio.Transport | None
    _channel: Channel | None

    def eof_received(self) -> None:
        """The peer has ended sending; the transport closes by itself."""

    def pause_writing(self) -> None:
        """The transport's buffer is over its high mark: the peer does not read."""
        self._connections.congest(self, self._channel)
        if self._channel is not None:
            self._channel.on_congested(True)

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._connections.relieve(self)
        if self._channel is not None:
            self._channel.on_congested(False)

    def unsent_bytes(self) -> int:
        """What the transport holds."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close the connection at once; what the peer did not read is lost."""
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Stop taking bytes from the peer."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes from the peer again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


def ignore(data: bytes) -> None:
    """Bytes for a connection that is gone."""
