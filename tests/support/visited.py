"""A server that a test connects to or not: it closes each connection, and says how many there were."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Visited:
    """A server that closes each connection, and counts them in the order in which they came."""

    def __init__(self, listening: socket.socket) -> None:
        self.port = listening.getsockname()[1]
        self._listening = listening
        self._count = 0
        self._seen: set[tuple[str, int]] = set()
        self._changed = threading.Condition()

    def serve(self) -> None:
        """Accept connections until the socket is shut down."""
        while True:
            try:
                connected, peer = self._listening.accept()
            except OSError:
                return
            connected.close()
            with self._changed:
                self._count += 1
                self._seen.add(peer)
                self._changed.notify_all()

    def count(self) -> int:
        """Connections that were made before this call: one of our own, which it waits for, comes after them."""
        with socket.create_connection(("127.0.0.1", self.port)) as own, self._changed:
            assert self._changed.wait_for(lambda: own.getsockname() in self._seen, 10)
            return self._count - 1


@contextmanager
def visited() -> Iterator[Visited]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Visited(listening)
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
