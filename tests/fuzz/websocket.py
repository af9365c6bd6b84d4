"""Fuzz target: WebSocket frames and compression; what they carry must be what a plain reading of them gives.

The reading that they are held against is the plainest that RFC 6455 allows: all bytes at once, one frame behind the
other. The production reader gets the same bytes in any pieces.
"""

import zlib
from dataclasses import dataclass, field
from typing import Final

from fuzz.source import Source
from heliograph.transport.deflate import PIECE_BYTES, Deflater, InflateError, Inflater, MessageCodec
from heliograph.transport.frames import FramedWire, FrameReader, close_fault
from support.kernel import Kernel
from support.reach import reachable
from support.wire import wire

_CONNECT: Final = wire('10 # "MQTT" 05 02 003c {} "c"')
_MASK: Final = b"\x37\xfa\x21\x3d"
_GENERATED: Final = 1
_OPCODES: Final = (0x82, 0x82, 0x82, 0x02, 0x00, 0x80, 0x89, 0x8A, 0x88, 0xC2, 0x42, 0x81, 0x83, 0x09)
# Inflated bytes that one input may lead to before it is a bomb that went off.
_INFLATED_MAX: Final = 1 << 20


@dataclass
class Heard:
    """What frames said."""

    payload: bytes = b""
    ends: int = 0  # of messages
    pings: list[bytes] = field(default_factory=list)
    goodbye: bytes | None = None
    fault: int = 0


class Recorder(FramedWire):
    """A connection that notes what its frames say; one that may be compressed says all of it here."""

    def __init__(self) -> None:
        self.heard = Heard()
        self.pieces: list[tuple[bytes, bool, bool]] = []

    def write(self, data: bytes) -> None:
        """Not of interest."""

    def close(self) -> None:
        """Not of interest."""

    def abort(self) -> None:
        """Not of interest."""

    def pause_reading(self) -> None:
        """Not of interest."""

    def resume_reading(self) -> None:
        """Not of interest."""

    def on_ping(self, payload: bytes) -> None:
        self.heard.pings.append(payload)

    def on_close(self, payload: bytes) -> None:
        assert 1000 <= close_fault(payload) < 5000
        self.heard.goodbye = payload

    def on_fault(self, code: int, reason: str) -> None:
        assert reason
        self.heard.fault = code

    def on_piece(self, piece: bytes, is_compressed: bool, is_end: bool) -> None:
        self.heard.payload += piece
        self.heard.ends += is_end
        self.pieces.append((piece, is_compressed, is_end))


def read_plainly(data: bytes, bytes_max: int) -> Heard:
    """Frames of a client that may compress, as RFC 6455 section 5.2 draws them."""
    heard = Heard()
    at, in_message, length_so_far = 0, False, 0
    while len(data) - at >= 2:
        first, second = data[at], data[at + 1]
        final, opcode, length = first >> 7 == 1, first & 15, second & 127
        if second < 0x80:
            heard.fault = 1002
            return heard
        extended = {126: 2, 127: 8}.get(length, 0)
        body = at + 6 + extended
        if body > len(data):
            return heard
        if extended:
            length = int.from_bytes(data[at + 2 : at + 2 + extended], "big")
            if length >= 1 << 63 or length < 126 or (extended == 8 and length < 65_536):
                heard.fault = 1002
                return heard
        is_control = opcode >= 8
        if is_control and length > 125:
            heard.fault = 1002
            return heard
        content = bytes(byte ^ data[body - 4 + number % 4] for number, byte in enumerate(data[body : body + length]))
        if is_control:
            if len(content) < length:
                return heard
            if not final or first & 0x70 or opcode > 10:
                heard.fault = 1002
                return heard
            if opcode == 8:
                heard.goodbye = content
                return heard
            if opcode == 9:
                heard.pings.append(content)
            at = body + length
            continue
        if opcode == 1:
            heard.fault = 1003
            return heard
        begins = opcode == 2 and not in_message
        if (first & 0x70 and not (first & 0x70 == 0x40 and opcode == 2)) or not (
            begins or (opcode == 0 and in_message)
        ):
            heard.fault = 1002
            return heard
        length_so_far = length if begins else length_so_far + length
        if bytes_max and length_so_far > bytes_max:
            heard.fault = 1009
            return heard
        heard.payload += content
        in_message = not final
        if len(content) < length:
            return heard
        heard.ends += final
        at = body + length
    return heard


def _frames(source: Source) -> bytes:
    out = []
    for _ in range(12):
        if not len(source):
            break
        first = source.byte() if source.rarely() else source.pick(_OPCODES)
        payload = source.take(source.pick((0, 1, 2, 5, 20, 60))) * (70 if source.rarely() else 1)
        size = len(payload)
        if source.rarely():
            size = source.pick((0, 125, 126, 127, 255))
        if size < 126 and not source.rarely():
            head = bytes((first, 0x80 | size))
        elif not source.rarely():
            head = bytes((first, 0xFE)) + size.to_bytes(2, "big")
        else:
            head = bytes((first, 0xFF)) + (size << (62 if source.rarely() else 0)).to_bytes(24, "big")[-8:]
        mask = _MASK if source.flag() else bytes(4)
        if source.rarely():
            head = bytes((head[0], head[1] & 0x7F)) + head[2:]
            mask = b""
        out.append(head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload) if mask))
    return b"".join(out)


def _in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [data]


def _unmask(data: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[at & 3] for at, byte in enumerate(data))


def run(data: bytes) -> None:
    """One input: how it is meant, how it is cut, and frames."""
    source = Source(data)
    how, size = source.byte(), source.pick((0, 1, 2, 3, 5, 17, 100))
    bytes_max = source.pick((0, 0, 30, 1000))
    stream = _frames(source) if how & _GENERATED else source.rest()
    recorder = _check_frames(stream, size, bytes_max)
    _check_codec(recorder, how, bytes_max)
    _check_joint(stream, size)


def _check_frames(stream: bytes, size: int, bytes_max: int) -> Recorder:
    recorder = Recorder()
    peer = Kernel().peer()
    reader = FrameReader(peer.channel.reader, recorder, _unmask, True, bytes_max)
    for piece in _in_pieces(stream, size):
        reader.receive(piece)
        assert max(map(len, reachable(reader, bytes, within="heliograph.transport")), default=0) <= 14 + 125, (
            "frames are gathered"
        )
    assert recorder.heard == read_plainly(stream, bytes_max)
    return recorder


def _check_codec(recorder: Recorder, how: int, bytes_max: int) -> None:
    """Whatever is said to be deflated inflates piece by piece, or is refused."""
    codec = MessageCodec(Inflater(15, how & 2 == 0), Deflater(15, 1, 1, how & 2 == 0), bytes_max)
    inflated = 0
    try:
        for piece, is_compressed, is_end in recorder.pieces:
            codec.take(piece, is_compressed, is_end)
            while (plain := codec.next_piece()) is not None:
                assert 0 < len(plain) <= max(PIECE_BYTES, len(piece))
                inflated += len(plain)
                if inflated > _INFLATED_MAX:
                    return
    except InflateError:
        pass  # as it may be
    for number in range(3):
        payload = recorder.heard.payload[: 100 * number]
        assert (
            zlib.decompressobj(-15).decompress(Deflater(15, 1, 1, False).message(payload) + b"\0\0\xff\xff") == payload
        )


def _check_joint(stream: bytes, size: int) -> None:
    """MQTT in frames is the MQTT that a plain connection would have brought."""
    heard = Recorder()
    framed, plain = Kernel().peer(), Kernel().peer()
    reader = FrameReader(framed.channel.reader, heard, _unmask, False, 0)
    head = bytes((0x82, 0x80 | len(_CONNECT))) + bytes(4) + _CONNECT
    for piece in [head, *_in_pieces(stream, size)]:
        reader.receive(piece)
    expected = _without_compression(stream)
    plain.channel.reader.receive(_CONNECT + expected)
    framed.kernel.run()
    plain.kernel.run()
    assert framed.wire.written == plain.wire.written
    assert framed.closed() == plain.closed()


def _without_compression(stream: bytes) -> bytes:
    """The payloads up to the first frame that is marked as compressed, which is a fault where nothing may be."""
    marked = _first_marked(stream)
    return read_plainly(stream if marked < 0 else stream[:marked], 0).payload


def _first_marked(stream: bytes) -> int:
    """Where the first frame begins that says it is compressed; -1 if none does."""
    at = 0
    while len(stream) - at >= 2:
        if stream[at] & 0x40:
            return at
        length = stream[at + 1] & 127
        extended = {126: 2, 127: 8}.get(length, 0)
        if extended:
            length = int.from_bytes(stream[at + 2 : at + 2 + extended], "big")
        at += 2 + extended + (4 if stream[at + 1] & 0x80 else 0) + length
    return -1
