"""WebSocket frames (RFC 6455, section 5), sans-IO: from a client's bytes to MQTT bytes, and headers for ours.

Payloads are handed on as they come, whatever frame or message they are part of: nothing is gathered here, so a length
that a peer claims costs nothing. What is said before the frames is in `upgrade`, compression in `deflate`.

Written for mypyc, like the packages below: one PUBLISH in each frame costs about as much here as in the channel.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.channel.reader import Reader
from heliograph.session.outbox import Wire

# First bytes of frames: FIN and the opcode.
BINARY: Final = 0x82
CLOSE: Final = 0x88
PONG: Final = 0x8A
COMPRESSED: Final = 0x40  # RSV1, of a message's first frame

_FIN: Final = 0x80
_RESERVED: Final = 0x70
_CONTROL: Final = 0x08
_OP_CONTINUATION: Final = 0x0
_OP_TEXT: Final = 0x1
_OP_BINARY: Final = 0x2
_OP_CLOSE: Final = 0x8
_OP_PING: Final = 0x9
_OP_PONG: Final = 0xA

# Codes of CLOSE (RFC 6455, section 7.4.1).
NORMAL_CLOSURE: Final = 1000
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED_DATA: Final = 1003
INVALID_PAYLOAD: Final = 1007
MESSAGE_TOO_BIG: Final = 1009


@mypyc_attr(allow_interpreted_subclasses=True)
class FramedWire(Wire):
    """The seam to a WebSocket connection: what frames say beside MQTT."""

    def on_ping(self, payload: bytes) -> None:
        """The peer asks for a pong with this payload."""
        raise NotImplementedError(type(self).__name__)

    def on_close(self, payload: bytes) -> None:
        """The peer says goodbye; no frame is read any more."""
        raise NotImplementedError(type(self).__name__)

    def on_fault(self, code: int, reason: str) -> None:
        """The peer broke the protocol; no frame is read any more."""
        raise NotImplementedError(type(self).__name__)

    def on_piece(self, piece: bytes, is_compressed: bool, is_end: bool) -> None:
        """A piece of a message, on a connection that may compress; `is_end` with the last of a message."""
        raise NotImplementedError(type(self).__name__)


class FrameReader:  # [MQTT-6.0.0-2] 3.1.1 [MQTT-6.0.0-2]
    """Reads one client's frames; a view of one connection, owned by it.

    Args:
        compresses: Whether compression was agreed on; pieces of messages then go to `wire`.
        message_bytes_max: Bytes of the largest message, as they are on the wire; 0 for no limit.

    Attributes:
        heard: Set with every read; the check for silence clears it.
        discards: Whether only the peer's closing frame matters, because ours was sent.
    """

    def __init__(
        self,
        reader: Reader,
        wire: FramedWire,
        unmask: Callable[[bytes, bytes], bytes],
        compresses: bool,
        message_bytes_max: i64,
    ) -> None:
        self._reader: Reader | None = reader
        self._wire: FramedWire | None = wire
        self._unmask = unmask
        self._compresses = compresses
        self._message_bytes_max = message_bytes_max
        self._rest = b""  # the beginning of a frame that cannot be read yet: a header, or a whole control frame
        self._left: i64 = 0  # bytes of a data frame that are still to come
        self._mask = b""  # for the next of them
        self._in_message = False  # a message began, and the current frame does not end it
        self._is_final = True  # the current frame ends its message
        self._is_compressed = False
        self._message_bytes: i64 = 0
        self._fault_code: i64 = 0
        self._fault = ""
        self._goodbye: bytes | None = None
        self.heard = False
        self.discards = False

    def receive(self, data: bytes) -> None:
        wire, reader = self._wire, self._reader
        if wire is None or reader is None:
            return
        self.heard = True
        if self._rest:
            data = self._rest + data
            self._rest = b""
        pieces: list[bytes] = []
        self._read(data, pieces, wire)
        if pieces and not self.discards:
            reader.receive(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._goodbye is not None:
            self.stop()
            wire.on_close(self._goodbye)
        elif self._fault_code != 0:
            self.stop()
            wire.on_fault(self._fault_code, self._fault)

    def stop(self) -> None:
        """Read nothing any more; parts from reader and wire, which refer to it."""
        self._reader = None
        self._wire = None
        self._rest = b""

    def _read(self, data: bytes, pieces: list[bytes], wire: FramedWire) -> None:
        pos: i64 = 0
        end: i64 = len(data)
        if self._left > 0:
            pos = self._go_on(data, end, pieces, wire)
        while end - pos >= 2:
            first: i64 = data[pos]
            length: i64 = data[pos + 1]
            if length < 0x80:
                self._fail(PROTOCOL_ERROR, "a frame without a mask")
                return
            length &= 0x7F
            body: i64 = pos + 6
            if length >= 126:
                body += 2 if length == 126 else 8
                if body > end:
                    break
                length = self._long_length(data, pos, length)
                if length < 0:
                    return
            elif body > end:
                break
            stop: i64 = body + length
            if first & _CONTROL:
                if length > 125:
                    self._fail(PROTOCOL_ERROR, "a control frame of more than 125 bytes")
                    return
                if stop > end:
                    break
                self._on_control(first, self._unmask(data[body:stop], data[body - 4 : body]), wire)
                if self._fault_code != 0 or self._goodbye is not None:
                    return
            else:
                # The frame that nearly all are needs no further look.
                if (first != BINARY or self._in_message or self._compresses) and not self._begin(first):
                    return
                if self._message_bytes_max != 0 and not self._count(length):
                    return
                if stop > end:
                    self._begin_part(data, body, end, stop, pieces, wire)
                    return
                self._hand_on(self._unmask(data[body:stop], data[body - 4 : body]), self._is_final, pieces, wire)
            pos = stop
        if pos < end:
            self._rest = data[pos:]

    def _long_length(self, data: bytes, pos: i64, marker: i64) -> i64:
        count: i64 = 2 if marker == 126 else 8
        length: i64 = 0
        at: i64 = pos + 2
        if count == 8 and data[at] >= 0x80:
            self._fail(PROTOCOL_ERROR, "a frame whose length has its highest bit set")
            return -1
        while at < pos + 2 + count:
            length = (length << 8) | data[at]
            at += 1
        if length < 126 or (count == 8 and length < 65_536):
            self._fail(PROTOCOL_ERROR, "a frame whose length is longer than it needs to be")
            return -1
        return length

    def _begin(self, first: i64) -> bool:
        opcode: i64 = first & 0x0F
        reserved: i64 = first & _RESERVED
        self._is_final = first >= _FIN
        if opcode == _OP_TEXT:
            self._fail(UNSUPPORTED_DATA, "MQTT is not sent as text")  # [MQTT-6.0.0-1] 3.1.1 [MQTT-6.0.0-1]
        elif reserved != 0 and not (reserved == COMPRESSED and self._compresses and opcode == _OP_BINARY):
            self._fail(PROTOCOL_ERROR, "a frame with reserved bits")
        elif opcode == _OP_BINARY and not self._in_message:
            self._is_compressed = reserved != 0
            self._message_bytes = 0
        elif opcode == _OP_CONTINUATION and self._in_message:
            pass
        elif opcode == _OP_BINARY:
            self._fail(PROTOCOL_ERROR, "a message begins before the last one has ended")
        elif opcode == _OP_CONTINUATION:
            self._fail(PROTOCOL_ERROR, "a continuation of no message")
        else:
            self._fail(PROTOCOL_ERROR, f"a frame with opcode {int(opcode)}")
        self._in_message = not self._is_final
        return self._fault_code == 0

    def _count(self, length: i64) -> bool:
        if not self._in_message and self._is_final and self._message_bytes == 0:
            is_too_long = length > self._message_bytes_max
        else:
            is_too_long = length > self._message_bytes_max - self._message_bytes
            self._message_bytes = 0 if self._is_final else self._message_bytes + length
        if is_too_long:
            self._fail(MESSAGE_TOO_BIG, f"a message of more than {int(self._message_bytes_max)} bytes")
        return not is_too_long

    def _begin_part(self, data: bytes, body: i64, end: i64, stop: i64, pieces: list[bytes], wire: FramedWire) -> None:
        mask = data[body - 4 : body]
        turned = (end - body) & 3
        self._left = stop - end
        self._mask = mask[turned:] + mask[:turned]
        self._hand_on(self._unmask(data[body:end], mask), False, pieces, wire)

    def _go_on(self, data: bytes, end: i64, pieces: list[bytes], wire: FramedWire) -> i64:
        """Take what came of the current frame; the place behind it."""
        stop: i64 = end if end < self._left else self._left
        self._left -= stop
        piece = self._unmask(data[:stop], self._mask)
        turned = stop & 3
        self._mask = self._mask[turned:] + self._mask[:turned]
        self._hand_on(piece, self._is_final and self._left == 0, pieces, wire)
        return stop

    def _hand_on(self, piece: bytes, is_end: bool, pieces: list[bytes], wire: FramedWire) -> None:
        if not self._compresses:
            if piece:
                pieces.append(piece)  # packets and frames end where they like [MQTT-6.0.0-2] 3.1.1 [MQTT-6.0.0-2]
        elif not self.discards:
            wire.on_piece(piece, self._is_compressed, is_end)

    def _on_control(self, first: i64, payload: bytes, wire: FramedWire) -> None:
        opcode: i64 = first & 0x0F
        if first < _FIN or first & _RESERVED:
            self._fail(PROTOCOL_ERROR, "a control frame that is fragmented or has reserved bits")
        elif opcode == _OP_PING:
            wire.on_ping(payload)
        elif opcode == _OP_CLOSE:
            self._goodbye = payload
        elif opcode != _OP_PONG:
            self._fail(PROTOCOL_ERROR, f"a frame with opcode {int(opcode)}")

    def _fail(self, code: int, reason: str) -> None:
        self._fault_code = code
        self._fault = reason


def frame_header(first: i64, length: i64) -> bytes:
    """The header of a frame of ours, which has no mask."""
    if length < 126:
        return bytes((int(first), int(length)))
    if length < 65_536:
        return bytes((int(first), 126, int(length >> 8), int(length & 0xFF)))
    size = int(length)
    return bytes((int(first), 127)) + size.to_bytes(8, "big")


def frames_of_packets(data: bytes) -> bytes:
    """Whole MQTT packets, each in a frame of its own."""
    out: list[bytes] = []
    pos: i64 = 0
    end: i64 = len(data)
    while pos < end:
        at: i64 = pos + 1
        length: i64 = data[at] & 0x7F
        shift: i64 = 7
        while data[at] >= 0x80:
            at += 1
            length |= (data[at] & 0x7F) << shift
            shift += 7
        stop: i64 = at + 1 + length
        out.append(frame_header(BINARY, stop - pos))
        out.append(data[pos:stop])
        pos = stop
    return b"".join(out)


def close_fault(payload: bytes) -> int:
    """The code to answer a peer's CLOSE with: its own, 1000 where it has none, 1002 or 1007 where it is not valid."""
    if not payload:
        return NORMAL_CLOSURE
    if len(payload) == 1:
        return PROTOCOL_ERROR
    code = payload[0] << 8 | payload[1]
    # 1004 to 1006 and 1015 are never sent; 1016 to 2999 are kept for later.
    if code < 1000 or 1004 <= code <= 1006 or 1015 <= code <= 2999 or code >= 5000:
        return PROTOCOL_ERROR
    try:
        payload[2:].decode("utf-8")
    except UnicodeDecodeError:
        return INVALID_PAYLOAD
    return code
