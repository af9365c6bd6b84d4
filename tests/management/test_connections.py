"""What callers without credentials may take of the process: short bodies, no trailers, no place without a request."""

import asyncio
import errno
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, StreamingResponse

from heliograph.config.management import DashboardHttpListener, DashboardListeners
from heliograph.management.web import area, connection
from heliograph.management.web.accepting import CallerAcceptor
from heliograph.management.web.area import OPEN, OPEN_BODY_BYTES_MAX, Area
from heliograph.management.web.errors import add_error_handlers
from heliograph.management.web.limits import Limits
from heliograph.management.web.models import Body, Str
from heliograph.management.web.server import WebServer
from heliograph.settings.units import Address
from support.certificates import Authority

_STATUS = re.compile(rb"HTTP/1.1 (\d+)")
_HEAD = b"GET /api/v5/open HTTP/1.1\r\nhost: x\r\n"


class _Said(Body):
    word: Str


class _Answers:
    """Counts what was begun and ended."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    begun = 0

    async def endless(self) -> AsyncIterator[bytes]:
        """More than any reader takes."""
        try:
            while True:
                yield bytes(1 << 16)
                await asyncio.sleep(0)
        finally:
            self.ended.set()


@pytest.fixture
async def answers() -> _Answers:
    return _Answers()


@pytest.fixture
async def port(answers: _Answers) -> AsyncIterator[int]:
    """Where a server is that has an open route."""
    routes = Area("Open")

    @routes.get("/open", scope=OPEN)
    async def get_open() -> PlainTextResponse:
        answers.begun += 1
        return PlainTextResponse("open")

    @routes.post("/open", scope=OPEN)
    async def post_open(body: _Said) -> PlainTextResponse:
        return PlainTextResponse(body.word)

    @routes.get("/endless", scope=OPEN)
    async def get_endless() -> StreamingResponse:
        return StreamingResponse(answers.endless())

    app = FastAPI()
    app.router.routes.extend(routes.routes)
    add_error_handlers(app)
    app.add_middleware(Limits)
    server = WebServer(app)
    await server.use(DashboardListeners(http=DashboardHttpListener(bind=Address("127.0.0.1", 0))))
    yield int(server.places[0].rpartition(":")[2])
    await server.stop()


async def _said(port: int, sent: bytes) -> bytes:
    """All that is answered until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answered = b""
    try:
        while part := await reader.read(1 << 16):
            answered += part
    except ConnectionResetError:
        pass  # we had sent more than was read
    writer.close()
    return answered


async def _endlessly(writer: asyncio.StreamWriter, part: bytes) -> None:
    while True:
        writer.write(part)
        await writer.drain()


async def test_trailers_without_end_are_refused(port: int) -> None:
    chunked = (
        b"POST /api/v5/open HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    trailer = b"x: " + b"a" * (1 << 20)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(chunked + b'e\r\n{"word": "yes"\r\n0\r\n')
    await writer.drain()
    with pytest.raises(ConnectionError):
        await _endlessly(writer, trailer)
    writer.close()


async def test_open_routes_take_short_bodies(port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        assert (await client.post("/api/v5/open", json={"word": "yes"})).text == "yes"
        answer = await client.post("/api/v5/open", json={"word": "a" * OPEN_BODY_BYTES_MAX})
        assert (answer.status_code, answer.json()["code"]) == (413, "EXCEED_LIMIT")


async def test_who_does_not_read_has_no_connection(
    port: int, answers: _Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "READ_S", 0.05)
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    writer.write(b"GET /api/v5/endless HTTP/1.1\r\nhost: x\r\n\r\n")
    await answers.ended.wait()
    writer.close()


async def test_callers_who_ask_nothing_make_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "connections_max", lambda: 3)
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
    answered = await _said(port, _HEAD + b"connection: close\r\n\r\n")
    assert _STATUS.findall(answered) == [b"200"]
    for _, writer in idle:
        writer.close()


async def test_handshakes_that_do_not_go_on_make_room(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.server())
    made: list[asyncio.Protocol] = []

    def protocol() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    acceptor = CallerAcceptor(listening, protocol, context, 3)
    try:
        host, port = listening.getsockname()
        waiting = [await asyncio.open_connection(host, port) for _ in range(5)]
        assert [await reader.read() for reader, _ in waiting[:2]] == [b"", b""], "the oldest are closed"
        trusting = ssl.create_default_context(cafile=authority.cafile)
        _, writer = await asyncio.open_connection(host, port, ssl=trusting)
        assert await waiting[2][0].read() == b""
        assert len(made) == 6
    finally:
        acceptor.close()
        await acceptor.wait_closed()
        listening.close()
    assert [await reader.read() for reader, _ in waiting[3:]] == [b"", b""]
    for _, one in waiting:
        one.close()
    writer.transport.abort()


async def test_what_was_given_up_before_it_was_taken_costs_no_request(port: int, answers: _Answers) -> None:
    for _ in range(50):  # the server is in this thread, so it takes none of them now
        with socket.create_connection(("127.0.0.1", port)) as given_up:
            given_up.sendall(_HEAD + b"\r\n")
    answered = await _said(port, _HEAD + b"connection: close\r\n\r\n")
    assert _STATUS.findall(answered) == [b"200"]
    assert answers.begun == 1


async def test_a_crowd_waits_for_a_busy_server(port: int) -> None:
    crowd = [socket.create_connection(("127.0.0.1", port), timeout=9) for _ in range(200)]  # it takes none of them now
    for one in crowd:
        one.setblocking(False)
        one.sendall(_HEAD + b"connection: close\r\n\r\n")
    loop = asyncio.get_running_loop()
    answered = await asyncio.gather(*[loop.sock_recv(one, 1 << 16) for one in crowd])
    assert {_STATUS.findall(one)[0] for one in answered} <= {b"200", b"503"}
    for one in crowd:
        one.close()


class _WithoutFiles(socket.socket):
    """A listening socket of a process that has no file left for two connections."""

    left = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


async def test_connections_wait_while_there_are_no_files_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = asyncio.Event()

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.set()
            transport.close()

    with _WithoutFiles() as listening, socket.socket() as caller:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        caller.connect(listening.getsockname())
        acceptor = CallerAcceptor(listening, Protocol, None, 4)
        await made.wait()
        acceptor.close()
        await acceptor.wait_closed()
    assert [record.getMessage() for record in caplog.records] == [
        "connections wait, since none can be accepted: Too many open files"
    ]


async def test_open_routes_wait_shortly_for_bodies(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(area, "OPEN_BODY_S", 0.05)
    head = b"POST /api/v5/open HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"
    assert _STATUS.findall(await _said(port, head)) == [b"400"]
