"""Nobody: a server that says yes to MQTT clients and passes bytes on without looking at them.

What the last connection with a SUBSCRIBE gets is what the others send after their CONNECT, 256 KiB at a time. It shows
what a load tool can do by itself: QoS 0, one to one, or publishers alone.
"""

import contextlib
import socket
import threading

_PIECE = 262_144
_CONNACK = b"\x20\x02\x00\x00"
_SUBACK = b"\x90\x03\x00\x01\x00"
_PINGREQ, _PINGRESP = b"\xc0\x00", b"\xd0\x00"
_SUBSCRIBE = 0x82


class Relay:
    """Who gets what the publishers send."""

    def __init__(self) -> None:
        self._subscriber: socket.socket | None = None

    def serve(self, connection: socket.socket) -> None:
        """Answer one client until it closes."""
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.recv(_PIECE)
            connection.sendall(_CONNACK)
            piece = bytearray(_PIECE)
            view = memoryview(piece)
            while size := connection.recv_into(piece):
                if piece[0] == _SUBSCRIBE:
                    self._subscriber = connection
                    connection.sendall(_SUBACK)
                    continue
                if self._subscriber is not None and self._subscriber is not connection:
                    self._subscriber.sendall(view[:size])
                if piece[size - 2 : size] == _PINGREQ:
                    connection.sendall(_PINGRESP)


def main() -> None:
    """Print the port, and serve until killed."""
    relay = Relay()
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=relay.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
