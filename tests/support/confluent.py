"""A schema registry of Confluent's kind to test against, on a free port of the loopback: Avro schemas by number."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def confluent_registry(schemas: Mapping[int, str]) -> Iterator[str]:
    """The URL of a registry that knows these schemas, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        """Answers ``/schemas/ids/NUMBER``."""

        def do_GET(self) -> None:
            number = int(self.path.rpartition("/")[2])
            known = number in schemas
            fields = {"schema": schemas[number]} if known else {"error_code": 40403, "message": "Schema not found"}
            body = json.dumps(fields).encode()
            self.send_response(200 if known else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
