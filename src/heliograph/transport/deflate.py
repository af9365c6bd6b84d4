"""Compression of WebSocket messages (permessage-deflate, RFC 7692): what a peer sent is inflated bit by bit.

A few bytes may inflate to megabytes. Nothing is inflated before what came out so far has been taken, so a bomb costs
its peer's own share of the broker's time and one piece of memory. What is agreed on is decided in `upgrade`.
"""

import zlib
from collections import deque
from collections.abc import Iterator
from typing import Final

PIECE_BYTES: Final = 65_536

# What a sender leaves out at the end of each message.
_TAIL: Final = b"\x00\x00\xff\xff"


class InflateError(Exception):
    """What came is not deflated, or more than is allowed (`is_too_long`)."""

    def __init__(self, detail: str, *, is_too_long: bool = False) -> None:
        super().__init__(detail)
        self.is_too_long = is_too_long


class Inflater:
    """Inflates one client's messages; with `keeps_context` a message may refer to those before."""

    def __init__(self, window_bits: int, keeps_context: bool) -> None:
        self._window_bits = window_bits
        self._keeps_context = keeps_context
        self._decoder: zlib._Decompress | None = None

    def pieces(self, data: bytes, is_end: bool) -> Iterator[bytes]:
        """What a piece of a message inflates to, at most `PIECE_BYTES` at a time."""
        if is_end:
            data += _TAIL
        if self._decoder is None:
            self._decoder = zlib.decompressobj(-self._window_bits)
        decoder = self._decoder
        while True:
            try:
                piece = decoder.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise InflateError(str(error)) from None
            data = decoder.unconsumed_tail
            if piece:
                yield piece
            elif not data:
                break
        if is_end and (decoder.eof or not self._keeps_context):
            self._decoder = None


class Deflater:
    """Deflates the messages for one client; with `keeps_context` a message may refer to those before."""

    def __init__(self, window_bits: int, level: int, mem_level: int, keeps_context: bool) -> None:
        self._window_bits = window_bits
        self._level = level
        self._mem_level = mem_level
        self._keeps_context = keeps_context
        self._encoder: zlib._Compress | None = None

    def message(self, data: bytes) -> bytes:
        encoder = self._encoder
        if encoder is None:
            encoder = zlib.compressobj(self._level, zlib.DEFLATED, -self._window_bits, self._mem_level)
            if self._keeps_context:
                self._encoder = encoder
        return (encoder.compress(data) + encoder.flush(zlib.Z_SYNC_FLUSH))[: -len(_TAIL)]


class MessageCodec:
    """Both directions of one connection that agreed on compression; owned by it.

    What came and is not inflated yet is at most one read of the socket: the connection reads on when all is taken.
    """

    def __init__(self, inflater: Inflater, deflater: Deflater, message_bytes_max: int) -> None:
        self._inflater = inflater
        self._deflater = deflater
        self._message_bytes_max = message_bytes_max
        self._message_bytes = 0
        self._queue: deque[tuple[bytes, bool, bool]] = deque()
        self._current: Iterator[bytes] = iter(())
        self._ends_message = False
        self.waits = False  # something may be left to take

    def take(self, piece: bytes, is_compressed: bool, is_end: bool) -> None:
        """Keep a piece of a message until `next_piece` has room for it."""
        self._queue.append((piece, is_compressed, is_end))
        self.waits = True

    def next_piece(self) -> bytes | None:
        """The next bytes of what came; None after the last."""
        while True:
            piece = next(self._current, None)
            if piece is not None:
                return self._counted(piece)
            if self._ends_message:
                self._ends_message = False
                self._message_bytes = 0
            if not self._queue:
                self.waits = False
                return None
            data, is_compressed, self._ends_message = self._queue.popleft()
            plain = iter((data,) if data else ())
            self._current = self._inflater.pieces(data, self._ends_message) if is_compressed else plain

    def drop(self) -> None:
        self._queue.clear()
        self._current = iter(())
        self.waits = False

    def deflate(self, data: bytes) -> bytes:
        return self._deflater.message(data)

    def _counted(self, piece: bytes) -> bytes:
        self._message_bytes += len(piece)
        if 0 < self._message_bytes_max < self._message_bytes:
            detail = f"a message of more than {self._message_bytes_max} bytes"
            raise InflateError(detail, is_too_long=True)
        return piece
