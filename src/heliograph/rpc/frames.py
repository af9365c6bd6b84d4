"""Bytes to frames and back, without a socket."""

from typing import Final

import msgspec

from heliograph.rpc.proto_v1 import FromAsker, ToAsker

FRAME_BYTES_MAX: Final = 4 << 20
ARGS_BYTES_MAX: Final = FRAME_BYTES_MAX - 4096  # of a request, whose frame has the name of its method too
HELLO_BYTES_MAX: Final = 4096
_LENGTH_BYTES: Final = 4


class FrameError(Exception):
    """The other side did not send a frame that is valid; the connection cannot be used any further."""


class RpcFrameReader:
    """Cuts what a connection receives into frames of at most `bytes_max`, which may be changed between them."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._buffer = bytearray()

    @property
    def is_midway(self) -> bool:
        return bool(self._buffer)

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> bytes | None:
        """Without its length; None until it has come. Raises `FrameError` if it is too long."""
        if len(self._buffer) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
        if length > self.bytes_max:
            raise FrameError(f"a frame of {length:,} bytes; valid are at most {self.bytes_max:,}")
        end = _LENGTH_BYTES + length
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[_LENGTH_BYTES:end])
        del self._buffer[:end]
        return frame

    def __repr__(self) -> str:
        return f"RpcFrameReader({len(self._buffer)} bytes wait)"


_encoder: Final = msgspec.msgpack.Encoder()
_from_asker: Final[msgspec.msgpack.Decoder[FromAsker]] = msgspec.msgpack.Decoder(FromAsker)
_to_asker: Final[msgspec.msgpack.Decoder[ToAsker]] = msgspec.msgpack.Decoder(ToAsker)


def encoded(frame: FromAsker | ToAsker) -> bytes:
    """Raises `FrameError` if it is too long."""
    data = _encoder.encode(frame)
    if len(data) > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {len(data):,} bytes; valid are at most {FRAME_BYTES_MAX:,}")
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


def raw(value: object) -> msgspec.Raw:
    """A struct, or a sequence of them, as a part of a frame."""
    return msgspec.Raw(_encoder.encode(value))


def from_asker(data: bytes) -> FromAsker:
    """Raises `FrameError`."""
    try:
        return _from_asker.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"what came is no frame of an asker: {error}") from error


def to_asker(data: bytes) -> ToAsker:
    """Raises `FrameError`."""
    try:
        return _to_asker.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"what came is no frame of an answer: {error}") from error
