"""A proxy of HTTP that passes on what is below one path without its beginning, as nginx does; WebSockets too."""

import socket
import socketserver
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_HEAD_MAX: Final = 65_536


class StrippingProxy:
    """The proxy, on a free port of this machine; an owner enters and leaves it.

    Args:
        prefix: What it takes away, as `/broker`.

    Attributes:
        targets: Ports of this machine by the beginning of the path behind the prefix; the longest that fits counts.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.targets: dict[str, int] = {}
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{prefix}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def passed_on(self, head: bytes) -> tuple[int, bytes] | None:
        """The port and the head of a request as they are passed on; None for what is not below the prefix.

        Each request has a connection of its own, so only the first of a connection is looked at.
        """
        line, *headers = head.decode("latin-1").split("\r\n")
        method, path, version = line.split(" ")
        if not path.startswith(f"{self.prefix}/"):
            return None
        inner = path.removeprefix(self.prefix)
        port = self.targets[max((one for one in self.targets if inner.startswith(one)), key=len)]
        if not any(header.lower().startswith("upgrade:") for header in headers):
            headers = [header for header in headers if not header.lower().startswith("connection:")]
            headers.append("Connection: close")
        return port, "\r\n".join([f"{method} {inner} {version}", *headers]).encode("latin-1")

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                received = b""
                while b"\r\n\r\n" not in received and len(received) < _HEAD_MAX:
                    if not (part := self.request.recv(4096)):
                        return
                    received += part
                head, _, body = received.partition(b"\r\n\r\n")
                if (found := proxy.passed_on(head)) is None:
                    self.request.sendall(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                    return
                port, sent = found
                with socket.create_connection(("127.0.0.1", port)) as inner:
                    inner.sendall(sent + b"\r\n\r\n" + body)
                    up = threading.Thread(target=_pipe, args=(self.request, inner))
                    up.start()
                    _pipe(inner, self.request)
                    up.join()

        return Handler


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128


def _pipe(source: socket.socket, target: socket.socket) -> None:
    """Bytes as they come, until one side ends; then neither side has anything to say any more."""
    with suppress(OSError):
        while part := source.recv(65_536):
            target.sendall(part)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
