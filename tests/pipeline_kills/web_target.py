"""A web service as a process, which `kill -9` may end: it notes each request in a file, then answers.

`python web_target.py PORT FILE`: a line of the file is the idempotency key, a blank and the body.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class NotingHandler(BaseHTTPRequestHandler):
    """Notes what is posted."""

    protocol_version = "HTTP/1.1"
    noted = -1

    def do_POST(self) -> None:
        """Note it, whole, before it is acknowledged."""
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # the client was killed
            self.close_connection = True
            return
        os.write(self.noted, self.headers["Idempotency-Key"].encode() + b" " + body + b"\n")
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: nobody reads it."""


if __name__ == "__main__":
    NotingHandler.noted = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ThreadingHTTPServer.allow_reuse_address = True
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), NotingHandler) as server:
        sys.stdout.write("listens\n")
        sys.stdout.flush()
        server.serve_forever()
