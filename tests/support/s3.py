"""A small S3 server: a bucket in memory, with what pyarrow's and delta-rs's clients ask of one.

It runs as a process of its own, since delta-rs holds Python's lock while it waits for an answer. Requests are not
checked for their signature. Objects appear whole, with their last byte, as they do in S3.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "lake"
_CONTROL = "control"


class S3Server:
    """A server that runs, as a test sees it.

    Args:
        endpoint: Its host:port.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def listed(self) -> list[str]:
        """The keys of all objects."""
        found: list[str] = json.loads(self._ask("GET", f"{_CONTROL}/keys"))
        return found

    def puts(self) -> list[str]:
        """The keys of all uploads since it was asked last, in their order."""
        found: list[str] = json.loads(self._ask("GET", f"{_CONTROL}/puts"))
        return found

    def gets(self) -> int:
        """How many downloads there were since it was asked last."""
        return int(self._ask("GET", f"{_CONTROL}/gets"))

    def given_bytes(self) -> int:
        """How much of objects it gave out since it was asked last."""
        return int(self._ask("GET", f"{_CONTROL}/given_bytes"))

    def get(self, key: str) -> bytes:
        """The content of an object."""
        return self._ask("GET", f"{BUCKET}/{key}")

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._ask("DELETE", f"{BUCKET}/{key}")

    def refuse_puts(self, count: int) -> None:
        """Have the next uploads refused, as a store that is out of order does."""
        self._ask("GET", f"{_CONTROL}/refuse/{count}")

    def _ask(self, method: str, path: str) -> bytes:
        connection = HTTPConnection(self.endpoint, timeout=20)
        connection.request(method, f"/{path}")
        content = connection.getresponse().read()
        connection.close()
        return content


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server that runs meanwhile."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield S3Server(process.stdout.readline().strip())
        finally:
            process.terminate()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.etags: dict[str, str] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.puts: list[str] = []
        self.gets = self.given_bytes = 0
        self.refused_puts = 0
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def control(self, command: str) -> object:
        """Answer a test."""
        if command == "keys":
            return sorted(self.objects)
        if command == "gets":
            gets, self.gets = self.gets, 0
            return gets
        if command == "given_bytes":
            given, self.given_bytes = self.given_bytes, 0
            return given
        if command == "puts":
            puts, self.puts = self.puts, []
            return puts
        self.refused_puts = int(command.removeprefix("refuse/"))
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the content waits for the client to acknowledge the head
    server: _Server

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a test asserts what arrived."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if urlsplit(self.path).path.strip("/").partition("/")[0] not in (BUCKET, _CONTROL):
            self._answer(404, _error("NoSuchBucket"))  # pyarrow looks at one to learn how a store answers
            return
        key, query = self._address()
        found: tuple[bytes, str] | None = None
        with self.server.lock:
            if self.path.startswith(f"/{_CONTROL}/"):
                self._answer(200, json.dumps(self.server.control(self.path.removeprefix(f"/{_CONTROL}/"))).encode())
            elif not key:
                self._list(query)
            elif key not in self.server.objects:
                self._answer(404, _error("NoSuchKey"))
            else:
                self.server.gets += self.command == "GET"
                found = self.server.objects[key], self.server.etags[key]
        if found is not None:
            self._send_object(*found)

    def do_PUT(self) -> None:
        key, query = self._address()
        content = self._body()
        with self.server.lock:
            if self.server.refused_puts:
                self.server.refused_puts -= 1
                self._answer(403, _error("AccessDenied"))
            elif "partNumber" in query:
                self.server.parts.setdefault(query["uploadId"][0], {})[int(query["partNumber"][0])] = content
                self._answer(200, b"", etag=_etag(content))
            elif self.headers.get("If-None-Match") == "*" and key in self.server.objects:
                self._answer(412, _error("PreconditionFailed"))
            else:
                self._put(key, content)
                self._answer(200, b"", etag=_etag(content))

    def do_POST(self) -> None:
        key, query = self._address()
        body = self._body()
        with self.server.lock:
            if "delete" in query:
                for found in re.findall(rb"<Key>(.*?)</Key>", body):
                    self.server.objects.pop(found.decode(), None)
                self._answer(200, b"<DeleteResult/>")
            elif "uploads" in query:
                upload = f"upload-{len(self.server.puts)}-{len(self.server.parts)}"
                self.server.parts[upload] = {}
                self._answer(200, _xml("InitiateMultipartUploadResult", Bucket=BUCKET, Key=key, UploadId=upload))
            else:
                parts = self.server.parts.pop(query["uploadId"][0])
                self._put(key, b"".join(parts[number] for number in sorted(parts)))
                answer = _xml("CompleteMultipartUploadResult", Bucket=BUCKET, Key=key, ETag=_etag(b""))
                self._answer(200, answer)

    def do_DELETE(self) -> None:
        key, _ = self._address()
        with self.server.lock:
            self.server.objects.pop(key, None)
            self._answer(204, b"")

    def _put(self, key: str, content: bytes) -> None:
        self.server.puts.append(key)
        self.server.objects[key] = content
        self.server.etags[key] = _etag(content)

    def _address(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        assert bucket in (BUCKET, _CONTROL), bucket
        return key, parse_qs(parts.query, keep_blank_values=True)

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = _unchunked(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_signed = "aws-chunked" in self.headers.get("Content-Encoding", "")
        return _unchunked(io.BytesIO(body)) if is_signed else body

    def _list(self, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        folders: set[str] = set()
        entries = []
        for key in keys:
            folder, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if cut:
                folders.add(prefix + folder + delimiter)
            else:
                size, etag = len(self.server.objects[key]), self.server.etags[key]
                stamp = "2026-01-31T00:00:00.000Z"
                entries.append(_xml("Contents", Key=key, Size=size, ETag=etag, LastModified=stamp))
        found = "".join(entry.decode() for entry in entries)
        found += "".join(_xml("CommonPrefixes", Prefix=folder).decode() for folder in sorted(folders))
        head = (
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries) + len(folders)}</KeyCount>"
        )
        head += "<MaxKeys>100000</MaxKeys><IsTruncated>false</IsTruncated>"
        self._answer(200, f"<ListBucketResult>{head}{found}</ListBucketResult>".encode())

    def _send_object(self, content: bytes, etag: str) -> None:
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._send_part(content, 200, etag)
            return
        first = int(wanted[1]) if wanted[1] else len(content) - int(wanted[2])
        last = min(int(wanted[2]) if wanted[1] and wanted[2] else len(content) - 1, len(content) - 1)
        said = f"bytes {first}-{last}/{len(content)}"
        self._send_part(content[first : last + 1], 206, etag, said)

    def _send_part(self, content: bytes, status: int, etag: str, content_range: str = "") -> None:
        if self.command == "GET":
            with self.server.lock:
                self.server.given_bytes += len(content)
        self._answer(status, content, etag=etag, content_range=content_range)

    def _answer(self, status: int, content: bytes, *, etag: str = "", content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", "Sat, 31 Jan 2026 00:00:00 GMT")
        if etag:
            self.send_header("ETag", etag)
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _unchunked(body: io.BufferedIOBase) -> bytes:
    """Content that comes in pieces, each with its size before it, as HTTP and, inside of that, S3 have them."""
    content = b""
    while size := int(body.readline().split(b";")[0], 16):
        content += body.read(size)
        body.readline()
    while body.readline().strip():  # checksums follow
        pass
    return content


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _error(code: str) -> bytes:
    return _xml("Error", Code=code, Message=code)


def _xml(name: str, **fields: object) -> bytes:
    inside = "".join(f"<{key}>{escape(str(value))}</{key}>" for key, value in fields.items())
    return f"<{name}>{inside}</{name}>".encode()


if __name__ == "__main__":
    with _Server() as server:
        sys.stdout.write(f"127.0.0.1:{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()
