"""The WebSocket protocol (RFC 6455) as a load client speaks it, without I/O: handshake, frames out, frames in.

A write of any size leaves as one binary frame, and frames may arrive in any size and cut anywhere: MQTT packets
need not keep to them [MQTT-6.0.0-2]. No extension is offered, so none may come back. Sockets are `endpoint`'s business.
"""

import base64
import hashlib
import secrets
from typing import Final

from heliograph.mqtt.errors import MalformedPacketError
from heliograph_bench.packets import BrokerRefusedError
from heliograph_bench.runs import run_length

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HEAD_BYTES_MAX: Final = 16384

_CONTINUATION: Final = 0x0
_TEXT: Final = 0x1
_BINARY: Final = 0x2
_CLOSE: Final = 0x8
_PING: Final = 0x9
_PONG: Final = 0xA
_FIN: Final = 0x80
_RESERVED: Final = 0x70
_MASKED: Final = 0x80
_IN_16_BITS: Final = 126
_IN_64_BITS: Final = 127

# How to mask with a key of four equal bytes.
_TABLES: Final = tuple(bytes(byte ^ key for byte in range(256)) for key in range(256))


class OpeningHandshake:
    """The opening handshake of one connection; done when `finish` has given the first bytes behind it."""

    def __init__(self, host: str, path: str) -> None:
        self._key = base64.b64encode(secrets.token_bytes(16))
        self._answer = b""
        self.request = (
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {self._key.decode()}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: mqtt\r\n\r\n"  # [MQTT-6.0.0-3]
        ).encode()

    def receive(self, data: bytes) -> bytes | None:
        """Take what the server answers: the bytes behind its answer, None while that is incomplete."""
        self._answer += data
        head, end, rest = self._answer.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _HEAD_BYTES_MAX:
                raise BrokerRefusedError(f"the WebSocket handshake was answered with {len(head)} bytes and no end")
            return None
        status, *lines = head.split(b"\r\n")
        if status.split(b" ")[1:2] != [b"101"]:
            raise BrokerRefusedError(f"the server refused the WebSocket: {status[:80].decode('latin-1')}")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        if fields.get(b"sec-websocket-accept") != accept_key(self._key):
            raise BrokerRefusedError("the server's WebSocket handshake does not belong to this one")
        if fields.get(b"sec-websocket-protocol") != b"mqtt":
            raise BrokerRefusedError("the server's WebSocket does not carry the subprotocol mqtt")
        return rest


class Frames:
    """The frames of one connection after its handshake; owned by its link.

    The masking key is one random byte four times. Keys must be unpredictable where others choose what a client sends,
    so that no proxy takes it for HTTP; this client sends only its own bytes, and masking them costs it a quarter.
    """

    def __init__(self) -> None:
        key = secrets.randbelow(256)
        self._key = bytes([key]) * 4
        self._table = _TABLES[key]
        self._rest = b""  # of a header, or of a control frame
        self._left = 0  # bytes to come of the data frame that has begun
        self.answers = b""  # to be written: pongs
        self.closed: str | None = None  # why the server closes, once it does

    def data(self, payload: bytes) -> bytes:
        return self._frame(_BINARY, payload)

    def close(self) -> bytes:
        return self._frame(_CLOSE, b"")

    def receive(self, data: bytes) -> bytes:
        """The payload that a piece of the stream carries."""
        if self._rest:
            data = self._rest + data
        parts: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._left:
                taken = data[at : at + self._left]
                self._left -= len(taken)
                at += len(taken)
                parts.append(taken)
                continue
            body, size = _header(data, at, end)
            opcode = data[at] & 0x0F
            if body == 0 or (opcode >= _CLOSE and body + size > end):
                break
            if opcode >= _CLOSE:
                self._control(opcode, data[body : body + size])
                at = body + size
            elif body + size <= end and data[at] == _FIN | _BINARY:
                count = run_length(data, at, body + size - at, range(1, body - at))
                parts.append(_payloads(data, at, body + size - at, count, body - at))
                at += count * (body + size - at)
            else:
                at, self._left = body, size
        self._rest = data[at:]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == _PING:
            self.answers += self._frame(_PONG, payload)
        elif opcode == _CLOSE:
            code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
            reason = payload[2:].decode("utf-8", "replace")
            self.closed = f"WebSocket closed with {code}{': ' if reason else ''}{reason}"

    def _frame(self, opcode: int, payload: bytes) -> bytes:
        size = len(payload)
        if size < _IN_16_BITS:
            head = bytes((_FIN | opcode, _MASKED | size))
        elif size <= 0xFFFF:
            head = bytes((_FIN | opcode, _MASKED | _IN_16_BITS)) + size.to_bytes(2, "big")
        else:
            head = bytes((_FIN | opcode, _MASKED | _IN_64_BITS)) + size.to_bytes(8, "big")
        return head + self._key + payload.translate(self._table)


def accept_key(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def _header(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the payload of the frame at `at` begins and its size; (0, 0) while the header is incomplete."""
    if end - at < 2:
        return 0, 0
    first, size = data[at], data[at + 1]
    opcode = first & 0x0F
    if first & _RESERVED or size & _MASKED or opcode not in (_CONTINUATION, _BINARY, _CLOSE, _PING, _PONG):
        what = "text" if opcode == _TEXT else f"0x{first:02x}{size:02x}"
        raise MalformedPacketError(f"a WebSocket frame that a broker may not send ({what})")  # [MQTT-6.0.0-1]
    if size < _IN_16_BITS:
        return at + 2, size
    behind = at + (4 if size == _IN_16_BITS else 10)
    if behind > end:
        return 0, 0
    return behind, int.from_bytes(data[at + 2 : behind], "big")


def _payloads(data: bytes, at: int, length: int, count: int, head: int) -> bytes:
    """The payloads of `count` frames of `length` bytes and equal headers; one C loop for each byte of the header."""
    if count == 1:
        return data[at + head : at + length]
    table = bytearray(data[at : at + count * length])
    for column in range(head):
        del table[:: length - column]
    return bytes(table)
