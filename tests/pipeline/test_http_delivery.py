"""Requests of the sink `http` as bytes on a connection: what is sent, and what odd servers answer. No Spark."""

import json
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from heliograph.actions.loops import marked
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.local_rows import LocalRows
from heliograph.pipeline.sinks.http import HttpSink
from support.cases import cases
from support.certificates import Authority
from support.raw_server import listening, read_request
from support.sinks import Refused, batch_of, sink_of
from support.webhook import Answer, Posted, webhook

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
QUICK = "retry { attempts = 3, first_pause = 1ms }"


def http_sink(url: str, more: str = "") -> HttpSink:
    """A sink, of one row a request."""
    sink = sink_of(f'{{ type = http, url = "{url}", body = "${{payload}}", batch_rows = 1, {QUICK}, {more} }}')
    assert isinstance(sink, HttpSink)
    return sink


def write(sink: HttpSink, rows: Sequence[bytes], refused: Refused | None = None) -> dict[str, int]:
    """Bring rows to a service; the figures."""
    return dict(sink.write(LocalRows(rows, sink), batch_of(0, refused)).figures)


@dataclass
class Server:
    """A service that says what a script has, and the last of it again and again; ``!`` ends the connection.

    Attributes:
        heads: What each request began with.
        connections: How many there were.
    """

    script: list[bytes]
    context: ssl.SSLContext | None
    port: int = 0
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)

    def serve(self, plain: socket.socket) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        with plain if self.context is None else self.context.wrap_socket(plain, server_side=True) as connected:
            while head := read_request(connected)[0]:
                self.heads.append(head)
                answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                connected.sendall(answer.removesuffix(b"!"))
                if answer.endswith(b"!"):
                    return


@contextmanager
def server(*script: bytes, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """One that runs until the block ends."""
    service = Server(list(script), context)
    with listening(service.serve) as service.port:
        yield service


def test_requests_without_a_body_say_all_by_their_address() -> None:
    with webhook() as web:
        for method in ("get", "delete"):
            sink = http_sink(f"{web.url}/a b/${{payload.n}}?q=ü", f"method = {method}")
            assert write(sink, [b'{"n": 1}', b'{"n": "50% #x"}'])["rows"] == 2
    assert [(one.method, one.path) for one in web.requests] == [
        ("GET", "/a%20b/1?q=%C3%BC"),
        ("GET", "/a%20b/50%25%20"),
        ("DELETE", "/a%20b/1?q=%C3%BC"),
        ("DELETE", "/a%20b/50%25%20"),
    ]
    assert len({one.headers["Idempotency-Key"] for one in web.requests}) == 4
    assert all(not {"Content-Length", "Content-Type"} & set(one.headers) for one in web.requests)


def test_a_header_of_the_settings_stands_once_in_the_place_of_a_usual_one() -> None:
    with server(OK) as service:
        headers = 'headers { content-type = "text/plain", host = h, x-row = "${payload.n}", content-length = 7 }'
        write(http_sink(f"http://u:p%20w@127.0.0.1:{service.port}", headers), ['{"n": "ü"}'.encode()])
    lines = service.heads[0].decode().lower().split("\r\n")
    assert lines[0] == "post / http/1.1"
    for line in ("content-type: text/plain", "host: h", "x-row: ü", "authorization: basic dtpwihc="):
        assert [one for one in lines if one.startswith(line.partition(":")[0])] == [line]
    assert "content-length: 11" in lines


def test_requests_name_the_nodes_where_a_row_has_been() -> None:
    row = {"pub_props": {"User-Property": {"heliograph-via": "far,far2"}}}
    section = {"type": "http", "headers": {"x": "y"}}
    with webhook() as web:
        for count in (1, 2):
            made = marked({**section, "url": web.url, "batch_rows": count}, "here")
            sink = sink_of(json.dumps(made))
            assert isinstance(sink, HttpSink)
            write(sink, [json.dumps(row).encode(), b"{}"])
    assert [one.headers["heliograph-via"] for one in web.requests] == ["here,far,far2", "here", "here"]


def test_what_no_request_can_be_made_of_is_refused_alone() -> None:
    refused = Refused()
    with webhook() as web:
        sink = http_sink(f"{web.url}/${{payload.p}}", 'headers { x-h = "${payload.h}" }')
        rows = [
            {"p": "a", "h": "b"},
            {"p": "a\r\nb", "h": "b"},
            {"p": "a", "h": "b\r\nX-Evil: 1"},
            {"p": "c", "h": "d"},
        ]
        figures = write(sink, [json.dumps(row).encode() for row in rows], refused)
    assert (figures["rows"], figures["refused"]) == (2, 2)
    assert [reason for _, reason in refused.rows] == [
        "no request can be made of it: the URL has a control character",
        "no request can be made of it: the header x-h has a control character",
    ]
    assert [one.path for one in web.requests] == ["/a", "/c"]


def test_several_rows_are_an_array_and_the_refused_one_is_found() -> None:
    def picky(request: Posted) -> Answer:
        return Answer(422) if 6 in json.loads(request.body) else Answer()

    refused = Refused()
    with webhook() as web:
        web.answer = picky
        sink = sink_of(
            f'{{ type = http, url = "{web.url}", body = "${{payload.n}}", batch_rows = 4, concurrency = 2 }}'
        )
        assert isinstance(sink, HttpSink)
        figures = write(sink, [b'{"n": %d}' % number for number in range(10)], refused)
    arrived = [json.loads(one.body) for one in web.requests]
    assert [0, 1, 2, 3] in arrived
    assert [8, 9] in arrived
    assert [row for row, _ in refused.rows] == [{"payload": b'{"n": 6}'}]
    assert figures == {"rows": 9, "bytes": 22, "requests": 7, "retries": 0, "refused": 1}


@cases(
    ("script", "connections"),
    [
        ([OK], 1),
        ([OK + b"!"], 3),  # closed after each answer, and nothing says so before
        ([b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n!"], 3),
        ([b"HTTP/1.0 200 OK\r\n\r\nuntil the end!"], 3),
        ([b"HTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 204 No\r\n\r\n"], 1),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"], 1),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok!"], 3),  # a body that never comes
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok and more!"], 3),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n" + b"x" * 999_999 + b"!"], 3),
    ],
)
def test_a_connection_is_kept_as_long_as_it_is_of_use(script: list[bytes], connections: int) -> None:
    with server(*script) as service:
        figures = write(http_sink(f"http://127.0.0.1:{service.port}/"), [b"1", b"2", b"3"])
        assert (figures["rows"], len(service.heads), service.connections) == (3, 3, connections)


@cases(
    ("answer", "reason"),
    [
        (b"SSH-2.0-server\r\n!", "the answer is no HTTP"),
        (b"!", "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "the head of the answer is too large"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2/\r\nContent-Length: 0\r\n\r\n", "answered 302 Found"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "timed out"),
    ],
)
def test_what_is_no_success_is_an_error(answer: bytes, reason: str) -> None:
    with server(answer) as service:
        sink = http_sink(f"http://127.0.0.1:{service.port}/", "timeout = 50ms")
        with pytest.raises(SinkError, match=rf"HTTP POST http://127\.0\.0\.1:\d+:? .*{reason}"):
            write(sink, [b"1"])


def test_a_failure_is_tried_again_while_others_are_under_way() -> None:
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
    with webhook() as web:
        answers = iter([Answer(503, {"Retry-After": "0"}), Answer(), Answer(503)])
        web.answer = lambda request: next(answers, Answer())
        figures = write(http_sink(web.url, "concurrency = 3"), [b"%d" % number for number in range(20)])
    assert (figures["rows"], figures["retries"]) == (20, 2)
    assert {one.body for one in web.requests} == {b"%d" % number for number in range(20)}
    with server(busy) as service, pytest.raises(SinkError, match=r"answered 503 Busy .tried 3 times"):
        write(http_sink(f"http://127.0.0.1:{service.port}/"), [b"1"])


def test_tls_has_the_name_of_the_address(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for name, is_right in (("localhost", True), ("elsewhere", False)):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(authority.server(name))
        with server(OK, context=context) as service:
            sink = http_sink(f"https://localhost:{service.port}/", f'ssl {{ cacertfile = "{authority.cafile}" }}')
            if is_right:
                assert write(sink, [b"1", b"2"])["rows"] == 2
                assert service.connections == 1
            else:
                with pytest.raises(SinkError, match="certificate verify failed"):
                    write(sink, [b"1"])
                assert service.heads == []
