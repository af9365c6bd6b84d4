"""A server that does with each connection what a test says, byte by byte, and requests of HTTP read from one."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_REQUEST = re.compile(rb"(?i)content-length: (\d+)\r\n(?s:.*?\r\n)?\r\n")


@contextmanager
def listening(serve: Callable[[socket.socket], None], port: int = 0) -> Iterator[int]:
    """A server until the block ends; yields its port. Each connection has a thread, and is closed after its turn."""
    with socket.create_server(("127.0.0.1", port)) as server:

        def run(connected: socket.socket) -> None:
            with connected, suppress(OSError):
                serve(connected)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=run, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def read_request(connected: socket.socket) -> tuple[bytes, bytes]:
    """A request, which says how long its body is: its head and its body, both empty at the end of the connection."""
    request = bytearray()
    while not (found := _REQUEST.search(request)) or len(request) < found.end() + int(found[1]):
        piece = connected.recv(1 << 20)
        if not piece:
            return b"", b""
        request += piece
    return bytes(request[: found.end()]), bytes(request[found.end() :])
