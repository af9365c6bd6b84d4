"""One client's TCP connection: joins an asyncio transport to a channel."""

import asyncio
from collections.abc import Callable
from typing import cast

from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext
from heliograph.session.outbox import Wire


class Connection(Wire):
    """A view of one TCP connection, and its asyncio protocol; made when it is accepted, gone when it is closed.

    Args:
        on_closed: Told when the connection is gone.
    """

    # `data_received` is the channel's own method: between the socket and compiled code stands no Python frame. The
    # event loop looks it up before `connection_made`, so the channel is made first.
    __slots__ = ("_channel", "_high_watermark", "_on_closed", "_transport", "data_received")

    def __init__(
        self, context: ChannelContext, high_watermark_bytes: int, on_closed: Callable[["Connection"], None]
    ) -> None:
        self._high_watermark = high_watermark_bytes
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        channel = Channel(context, self)
        self._channel: Channel | None = channel
        self.data_received: Callable[[bytes], None] = channel.receive

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a channel on an accepted connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._high_watermark)
        if self._channel is not None:
            self._channel.connection_made(_address(transport.get_extra_info("peername")))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the channel that the connection is gone."""
        if self._channel is not None:
            self._channel.connection_lost()
        # Channel and connection refer to each other; parted, they are freed at once and not by the garbage collector.
        self._channel = None
        self.data_received = _ignore
        self._transport = None
        self._on_closed(self)

    def pause_writing(self) -> None:
        """The transport's buffer is over its high mark: the peer does not read."""
        if self._channel is not None:
            self._channel.on_congested(True)

    def resume_writing(self) -> None:
        """The peer reads again."""
        if self._channel is not None:
            self._channel.on_congested(False)

    def write(self, data: bytes) -> None:
        """Send bytes behind those sent before."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection behind the bytes sent before."""
        if self._transport is not None:
            self._transport.close()

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


def _ignore(data: bytes) -> None:
    """Bytes for a connection that is gone."""


def _address(peername: object) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        host, port = peername[0], peername[1]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return str(peername)
