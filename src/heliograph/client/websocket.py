"""MQTT over WebSocket: the frames of the library `websockets`, over a stream of bytes."""

from __future__ import annotations

from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from heliograph.client.stream import ByteStream

_SUBPROTOCOL: Final = Subprotocol("mqtt")  # [MQTT-6.0.0-3]


class WebSocketStream:
    """A WebSocket on a connection of its own.

    Args:
        url: What is asked for.

    Raises:
        OSError: The connection ends.
        ValueError: The server does not speak MQTT over WebSocket there.
    """

    def __init__(self, stream: ByteStream, url: str) -> None:
        self._stream = stream
        self._protocol = ClientProtocol(parse_uri(url), subprotocols=[_SUBPROTOCOL], max_size=None)
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        while self._protocol.state is State.CONNECTING and self._protocol.handshake_exc is None:
            self._feed()
        if self._protocol.handshake_exc is not None:
            raise ValueError(f"no WebSocket for MQTT at {url}: {_cause(self._protocol.handshake_exc)}")

    def fileno(self) -> int:
        """The connection's file."""
        return self._stream.fileno()

    def send(self, data: bytes) -> None:
        """Send it as one binary message."""
        self._protocol.send_binary(data)
        self._flush()

    def receive(self) -> bytes | None:
        """The payloads of what has come; None at the end."""
        is_open = self._feed()
        data = self._payloads()
        return data if data or (is_open and self._protocol.state is State.OPEN) else None

    def close(self) -> None:
        """Say goodbye and close."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close()
            self._flush()
        self._stream.close()

    def _feed(self) -> bool:
        data = self._stream.receive()
        if data is None:
            self._protocol.receive_eof()
        else:
            self._protocol.receive_data(data)
        self._flush()
        return data is not None

    def _flush(self) -> None:
        for piece in self._protocol.data_to_send():
            if piece:
                self._stream.send(piece)

    def _payloads(self) -> bytes:
        events = self._protocol.events_received()
        frames = [each for each in events if isinstance(each, Frame)]
        return b"".join(bytes(each.data) for each in frames if each.opcode in (Opcode.BINARY, Opcode.CONT))


def _cause(error: Exception) -> str:
    response = getattr(error, "response", None)
    if isinstance(error, InvalidHandshake) and isinstance(response, Response):
        return f"the server answered {response.status_code} {response.reason_phrase}"
    return str(error)
