"""Schemas behind a service, against a real one on this machine."""

import json
import threading
import time
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from heliograph.rules.schemas import SchemaError
from heliograph.rules.schemas.external_http import ExternalHttpSchema
from heliograph.rules.schemas.settings import HttpService, SchemaSourceError
from heliograph.settings.tls import ClientTls
from support.cases import cases


class Service(BaseHTTPRequestHandler):
    """Turns every byte around (exclusive or with 0xff), unless `opts` asks for something else."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.answer(asked, b64decode(asked["payload"], validate=True))

    def do_GET(self) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.answer(asked, urlsafe_b64decode(asked.get("payload", "") + "=="))

    def answer(self, asked: dict[str, str], payload: bytes) -> None:
        kind = asked.get("opts", "")
        bodies = {
            "plain": b"\xff no base64",
            "large": b"A" * 3000,
            "drip": b"A" * 1_000_000,
            "who": b64encode(f"{asked['type']} {asked['schema_name']} {self.headers['x-key']}".encode()),
        }
        body = bodies.get(kind, b64encode(bytes(byte ^ 255 for byte in payload)))
        self.send_response(500 if kind == "fail" else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if kind == "drip":
            self.drip()
        else:
            self.wfile.write(body)

    def drip(self) -> None:
        """A piece before each time-out, for ever, as long as anybody listens."""
        with suppress(OSError):
            while True:
                self.wfile.write(b"A")
                time.sleep(0.02)  # it is the pace of the server

    def log_message(self, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/serde"
    server.shutdown()
    thread.join()
    server.server_close()


@cases("method", ["post", "get"])
def test_encoding_and_decoding(url: str, method: str) -> None:
    schema = ExternalHttpSchema("x", HttpService(url, method))
    assert schema.may_block
    assert schema.decode(b"\x9e") == "a"
    assert schema.decode(b"a") == b"\x9e"
    assert schema.encode("a?>") == bytes(byte ^ 255 for byte in b"a?>")
    assert schema.encode({"a": 1}) == bytes(byte ^ 255 for byte in b'{"a":1}')
    assert schema.check(b"a") is None
    schema.close()


def test_what_the_service_is_told(url: str) -> None:
    schema = ExternalHttpSchema("mine", HttpService(url, headers=(("x-key", "k"),), external_params="who"))
    assert schema.decode(b"a") == "decode mine k"
    assert schema.encode("a") == b"encode mine k"
    schema.close()


@cases(
    ("kind", "problem"),
    [
        ("fail", "answered with status 500"),
        ("plain", "answered with something that is not base64"),
        ("large", "answered with more than 2,000 bytes"),
    ],
)
def test_answers_that_cannot_be_used(url: str, kind: str, problem: str) -> None:
    schema = ExternalHttpSchema("x", HttpService(url, external_params=kind, response_bytes_max=2000))
    with pytest.raises(SchemaError, match=problem):
        schema.decode(b"a")
    assert problem in str(schema.check(b"a"))
    schema.close()


def test_a_service_that_never_ends_has_no_more_time_than_one_that_is_silent(url: str) -> None:
    schema = ExternalHttpSchema("x", HttpService(url, external_params="drip", request_timeout_s=0.2))
    with pytest.raises(SchemaError, match="gave no answer in time"):
        schema.decode(b"a")
    schema.close()


def test_nobody_answers() -> None:
    schema = ExternalHttpSchema("x", HttpService("http://127.0.0.1:1/", retries_max=0))
    with pytest.raises(SchemaError, match="cannot be asked"):
        schema.decode(b"a")
    schema.close()


def test_a_service_that_cannot_be_used() -> None:
    with pytest.raises(SchemaSourceError, match="cannot be used"):
        ExternalHttpSchema("x", HttpService("https://127.0.0.1/", tls=ClientTls("/nowhere")))
