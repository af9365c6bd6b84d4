"""An implementation of Elasticsearch's bulk API to test against, over TLS and with a password.

Elasticsearch itself is in no package index. This one holds documents in memory and knows what its reference says of
`/_bulk`: operations, conflicts of versions, missing indexes, fields whose type is another one. It takes nothing
that Elasticsearch refuses: lines that are no JSON objects, ids of over 512 bytes, names of indexes in upper case.
"""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.certificates import Authority

_USER = "writer"
_PASSWORD = "p's wörd"
_OPERATIONS = frozenset({"create", "index", "update", "delete"})
_META = frozenset({"_index", "_id", "routing", "require_alias"})
_ID_BYTES_MAX = 512


@dataclass
class Elasticsearch:
    """A running server.

    Attributes:
        documents: By index and id.
        busy: How many operations it answers with 429 yet.
        may_create: Whether an index that is not there is created.
    """

    port: int
    cafile: Path
    documents: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    types: dict[tuple[str, str], type] = field(default_factory=dict)
    busy: int = 0
    may_create: bool = True
    bulks: int = 0

    def section(self, more: str) -> str:
        """The section of a sink that writes to it."""
        return (
            f'{{ type = elasticsearch, server = "127.0.0.1:{self.port}", username = {_USER}, '
            f'password = "{_PASSWORD}", ssl {{ cacertfile = "{self.cafile}" }}, {more} }}'
        )

    def bulk(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """The status and the answer of one request."""
        self.bulks += 1
        if not body.endswith(b"\n"):
            return _refusal(400, "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]")
        lines = [json.loads(line) for line in body.splitlines()]
        items: list[dict[str, Any]] = []
        while lines:
            ((operation, about),) = lines.pop(0).items()
            if operation not in _OPERATIONS or not set(about) <= _META:
                return _refusal(400, "illegal_argument_exception", "Malformed action/metadata line")
            source = None if operation == "delete" else lines.pop(0)
            items.append({operation: self._item(operation, about, source)})
        return 200, {"took": 1, "errors": any("error" in next(iter(item.values())) for item in items), "items": items}

    def _item(self, operation: str, about: dict[str, Any], source: Any) -> dict[str, Any]:
        if self.busy:
            self.busy -= 1
            return _error(429, "es_rejected_execution_exception", "rejected execution of coordinating operation")
        index, identity = about["_index"], about["_id"]
        if index != index.lower():
            return _error(400, "invalid_index_name_exception", f"Invalid index name [{index}], must be lowercase")
        if len(identity.encode()) > _ID_BYTES_MAX:
            return _error(400, "illegal_argument_exception", "id is too long, must be no longer than 512 bytes")
        if index not in self.documents:
            if not self.may_create:
                return _error(404, "index_not_found_exception", f"no such index [{index}]")
            self.documents[index] = {}
        held = self.documents[index]
        if operation == "delete":
            return {"status": 200 if held.pop(identity, None) is not None else 404}
        if operation == "update":
            if identity not in held and not source["doc_as_upsert"]:
                return _error(404, "document_missing_exception", f"[{identity}]: document missing")
            source = held.get(identity, {}) | source["doc"]
        elif operation == "create" and identity in held:
            return _error(409, "version_conflict_engine_exception", f"[{identity}]: version conflict")
        for name, value in source.items():
            kind = self.types.setdefault((index, name), type(value))
            if not isinstance(value, kind):
                return _error(400, "document_parsing_exception", f"failed to parse field [{name}]")
        held[identity] = source
        return {"status": 201}


def _error(status: int, kind: str, reason: str) -> dict[str, Any]:
    return {"status": status, "error": {"type": kind, "reason": reason}}


def _refusal(status: int, kind: str, reason: str) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"type": kind, "reason": reason}, "status": status}


@contextmanager
def elasticsearch(folder: Path) -> Iterator[Elasticsearch]:
    """A server until the block ends."""
    authority = Authority(folder)
    login = f"Basic {base64.b64encode(f'{_USER}:{_PASSWORD}'.encode()).decode()}"
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Authorization") != login:
                self._answer(*_refusal(401, "security_exception", "unable to authenticate user"))
            elif self.path == "/" and self.command == "GET":
                self._answer(200, {"cluster_name": "test"})
            elif self.path.partition("?")[0] != "/_bulk" or self.headers["Content-Type"] != "application/x-ndjson":
                self._answer(*_refusal(406, "media_type_header_exception", "Invalid media-type"))
            else:
                with lock:
                    self._answer(*server.bulk(body))

        do_GET = do_POST  # noqa: N815 (the name that the server looks for)

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            return

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server())
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        server = Elasticsearch(listening.server_port, authority.cafile)
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
