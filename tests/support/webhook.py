"""A web service that remembers what is posted to it, and answers as a test says."""

import gzip
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Posted:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> bytes:
        """The body as it was before it was compressed."""
        return gzip.decompress(self.raw) if self.headers.get("Content-Encoding") == "gzip" else self.raw


@dataclass(frozen=True)
class Answer:
    """What the service says."""

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class Webhook:
    """The service: its port, what it was sent, and how it answers."""

    port: int
    requests: list[Posted] = field(default_factory=list)
    answer: Callable[[Posted], Answer] = lambda request: Answer()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def webhook(port: int = 0) -> Iterator[Webhook]:
    """A service until the block ends.

    Args:
        port: Where; any free one by default.
    """
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Posted(self.command, self.path, dict(self.headers.items()), raw)
            with lock:
                service.requests.append(request)
            answer = service.answer(request)
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # who asked takes no more of it
                self.wfile.write(answer.body)

        do_GET = do_POST  # noqa: N815 (the name that the server looks for)
        do_DELETE = do_POST  # noqa: N815 (the name that the server looks for)
        do_PUT = do_POST  # noqa: N815 (the name that the server looks for)

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        service = Webhook(server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()
