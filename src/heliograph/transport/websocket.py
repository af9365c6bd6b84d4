"""One client's WebSocket connection: its handshake, then the joint between frames and a channel."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

try:
    from websockets.speedups import apply_mask
except ImportError:  # where the package was built without a C compiler
    from websockets.utils import apply_mask

from heliograph.channel.channel import Channel
from heliograph.channel.peer import Peer
from heliograph.transport.connection import ChannelLink, ignore
from heliograph.transport.connections import Connections
from heliograph.transport.deflate import InflateError, MessageCodec
from heliograph.transport.frames import (
    BINARY,
    CLOSE,
    COMPRESSED,
    INVALID_PAYLOAD,
    MESSAGE_TOO_BIG,
    NORMAL_CLOSURE,
    PONG,
    FramedWire,
    FrameReader,
    close_fault,
    frame_header,
    frames_of_packets,
)
from heliograph.transport.pending_connection import PendingConnection
from heliograph.transport.upgrade import END_OF_REQUEST, REQUEST_BYTES_MAX, Upgrade

# Up to here a frame is copied behind its header; beyond, the transport writes the two one after the other.
_COPIED_BYTES_MAX: Final = 16_384


class WebSocketHandshake:
    """The beginning of a WebSocket connection, and its asyncio protocol until it is answered; holds one request."""

    __slots__ = ("_connections", "_peer", "_pending", "_request", "_transport")

    def __init__(self, connections: Connections, pending: PendingConnection) -> None:
        self._connections = connections
        self._pending: PendingConnection | None = pending
        self._peer: Peer | None = None
        self._request = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._pending is not None:
            self._transport = cast("asyncio.Transport", transport)
            self._peer = self._connections.welcome(self, self._pending)
            self._pending = None
            self._connections.identify(self._peer, self._transport)
            self._connections.await_request(self)

    @property
    def peername(self) -> str:
        return "" if self._peer is None else self._peer.peername

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.forget(self)

    def eof_received(self) -> None: ...

    def pause_writing(self) -> None:
        """An answer is short."""

    def resume_writing(self) -> None:
        """An answer is short."""

    def data_received(self, data: bytes) -> None:
        transport, peer = self._transport, self._peer
        if transport is None or peer is None or transport.is_closing():
            return
        # Joining is cheap: the request is short, and beyond its limit nothing is kept.
        request = self._request + data
        end = request.find(END_OF_REQUEST, max(0, len(self._request) - 3), REQUEST_BYTES_MAX)
        if end >= 0:
            end += len(END_OF_REQUEST)
            self._answer(transport, peer, request[:end], request[end:])
        elif len(request) >= REQUEST_BYTES_MAX:
            self._refuse(transport, f"a request of more than {REQUEST_BYTES_MAX} bytes")
        else:
            self._request = request

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, transport: asyncio.Transport, peer: Peer, request: bytes, rest: bytes) -> None:
        upgrade = self._connections.upgrades.decide(request, peer.peername)
        transport.write(upgrade.answer)
        if not upgrade.is_accepted:
            self._refuse(transport, upgrade.reason)
            return
        self._peer = None
        if upgrade.peername is not None:
            peer.peername = upgrade.peername
        connection = WebSocketConnection(self._connections, transport, upgrade)
        self._connections.replace(self, connection)
        connection.begin(peer)
        if rest:
            connection.data_received(rest)

    def _refuse(self, transport: asyncio.Transport, reason: str) -> None:
        peername, self._peer = self.peername, None
        self._connections.count_failure(peername, f"WebSocket handshake: {reason}")
        transport.close()


class WebSocketConnection(ChannelLink, FramedWire):
    """A view of one connection behind its handshake, and its asyncio protocol.

    All bytes that a turn writes are one binary message. A peer's goodbye is answered when what came before it is done.
    """

    # `data_received` is the reader's own method: between the socket and compiled code stands no Python frame.
    __slots__ = (
        "_channel",
        "_codec",
        "_connections",
        "_goodbye",
        "_is_congested",
        "_is_paused",
        "_peername",
        "_silent_checks",
        "_transport",
        "data_received",
        "reader",
    )

    def __init__(self, connections: Connections, transport: asyncio.Transport, upgrade: Upgrade) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = transport
        self._is_paused = False
        self._is_congested = False
        self._peername = ""
        self._silent_checks = 0
        self._goodbye: int | None = None  # the code to say goodbye with, when what was read before it is done
        channel = Channel(connections.context, self, connections.options)
        self._channel: Channel | None = channel
        bytes_max = connections.message_bytes_max
        self._codec: MessageCodec | None = None
        if upgrade.inflater is not None and upgrade.deflater is not None:
            self._codec = MessageCodec(upgrade.inflater, upgrade.deflater, bytes_max)
        self.reader = FrameReader(channel.reader, self, apply_mask, self._codec is not None, bytes_max)
        self.data_received: Callable[[bytes], None] = self.reader.receive

    def begin(self, peer: Peer) -> None:
        transport, channel = self._transport, self._channel
        if transport is not None and channel is not None:
            self._peername = peer.peername
            transport.set_write_buffer_limits(high=self._connections.high_watermark)
            transport.set_protocol(cast("asyncio.Protocol", self))
            channel.connection_made(peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.reader.stop()
        self._codec = None
        self.data_received = ignore
        channel = self._channel
        # Channel and connection refer to each other; parted, they are freed at once and not by the garbage collector.
        self._channel = None
        self._transport = None
        self._connections.lose_upgraded(self, channel)

    def pause_writing(self) -> None:
        self._is_congested = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_congested = False
        super().resume_writing()

    # --- as the channel uses it

    def write(self, data: bytes) -> None:
        if self._connections.is_single:
            self._send(frames_of_packets(data))
        elif self._codec is not None:
            self._send_frame(BINARY | COMPRESSED, self._codec.deflate(data))
        else:
            self._send_frame(BINARY, data)

    def close(self) -> None:
        """Say goodbye behind the bytes sent before; the connection is closed when the peer has done so too.

        A peer that does not is cut by its channel, as any that does not read its last words.
        """
        if self._goodbye is not None:
            self._conclude()
        elif not self.reader.discards:
            self.reader.discards = True
            self._send_close(NORMAL_CLOSURE)
            if self._is_paused:
                super().resume_reading()

    def pause_reading(self) -> None:
        self._is_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        """Take bytes from the peer again, behind those that wait here."""
        self._is_paused = False
        if (self._codec is not None and self._codec.waits) or self._goodbye is not None:
            # In a turn of its own: who resumes may be in the middle of something.
            self._connections.context.defer(self._go_on)
        else:
            super().resume_reading()

    # --- as the frame reader uses it

    def on_ping(self, payload: bytes) -> None:
        if not self._is_congested and not self.reader.discards:
            self._send_frame(PONG, payload)

    def on_close(self, payload: bytes) -> None:
        self._finish(close_fault(payload))

    def on_fault(self, code: int, reason: str) -> None:
        self._connections.count_failure(self._peername, f"WebSocket: {reason}")
        self._finish(code)

    def on_piece(self, piece: bytes, is_compressed: bool, is_end: bool) -> None:
        """Inflate what may be compressed, as far as the channel takes it."""
        if self._codec is not None:
            self._codec.take(piece, is_compressed, is_end)
            if not self._is_paused:
                self._go_on()

    # --- as the listener uses it

    def is_silent(self, checks_max: int) -> bool:
        self._silent_checks = 0 if self.reader.heard else self._silent_checks + 1
        self.reader.heard = False
        return self._silent_checks > checks_max

    def _go_on(self) -> None:
        """Hand on what waits, until the channel has enough; then read on."""
        codec = self._codec
        if codec is not None:
            while not self._is_paused and self._channel is not None and not self.reader.discards:
                try:
                    piece = codec.next_piece()
                except InflateError as error:
                    codec.drop()
                    self.reader.stop()
                    self.on_fault(MESSAGE_TOO_BIG if error.is_too_long else INVALID_PAYLOAD, str(error))
                    return
                if piece is None:
                    break
                self._channel.reader.receive(piece)
        if self._is_paused:
            return
        if self._goodbye is not None:
            self._finish(self._goodbye)
        else:
            super().resume_reading()

    def _finish(self, code: int) -> None:
        """End the connection after what was read, and after what the channel writes for it in this turn."""
        self._goodbye = code
        waits = self._is_paused or (self._codec is not None and self._codec.waits)
        if not waits or self.reader.discards:
            self._connections.context.defer(self._conclude)

    def _conclude(self) -> None:
        if not self.reader.discards:
            self.reader.discards = True
            self._send_close(self._goodbye or NORMAL_CLOSURE)
        self.reader.stop()
        if self._transport is not None:
            self._transport.close()

    def _send_close(self, code: int) -> None:
        self._send_frame(CLOSE, code.to_bytes(2, "big"))

    def _send_frame(self, first: int, payload: bytes) -> None:
        header = frame_header(first, len(payload))
        if len(payload) <= _COPIED_BYTES_MAX:
            self._send(header + payload)
        else:
            self._send(header)
            self._send(payload)

    def _send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
