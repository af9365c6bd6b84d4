"""Sockets that are read and written without the event loop's transports keep what those promise."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest

from heliograph.broker.pressure import Pressure
from heliograph.transport.protocol_transport import ProtocolTransport
from heliograph.transport.sockets import Poller, SocketTransport
from support.cases import cases
from support.listening import PINGREQ, PINGRESP, listening

TIMEOUT_S = 10.0


class Recorder(asyncio.Protocol):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.transport: ProtocolTransport
        self.poller: Poller
        self.data = b""
        self.pieces = 0
        self.told: list[str] = []
        self.error: Exception | None = None
        self.on_data: Callable[[bytes], None] | None = None
        self.changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("ProtocolTransport", cast("object", transport))
        self._tell("made")

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces += 1
        self.changed.set()
        if self.on_data is not None:
            self.on_data(data)

    def eof_received(self) -> None:
        self._tell("eof")

    def pause_writing(self) -> None:
        self._tell("paused")

    def resume_writing(self) -> None:
        self._tell("resumed")

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._tell("lost")

    def _tell(self, what: str) -> None:
        self.told.append(what)
        self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def connected(
    pair: tuple[socket.socket, socket.socket] | None = None,
) -> AsyncIterator[tuple[Recorder, socket.socket]]:
    """A connection of a poller, and the other end of it; both are gone behind it."""
    ours, theirs = pair or socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    poller, protocol = Poller(lambda: None, Pressure()), Recorder()
    protocol.poller = poller
    poller.connect(ProtocolTransport(poller, ours, protocol))
    assert protocol.told == ["made"]
    with theirs:
        yield protocol, theirs
        protocol.transport.abort()
        await protocol.until(lambda: protocol.told[-1] == "lost")
        assert protocol.told.count("lost") == 1
        assert ours.fileno() == -1
    poller.close()
    poller.close()


async def read_all(theirs: socket.socket, size: int) -> bytes:
    loop, found = asyncio.get_running_loop(), b""
    while len(found) < size:
        found += await loop.sock_recv(theirs, 1 << 20)
    return found


async def test_bytes_go_both_ways() -> None:
    async with connected() as (protocol, theirs):
        theirs.send(b"abc")
        await protocol.until(lambda: protocol.data == b"abc")
        protocol.transport.write(b"def")
        assert theirs.recv(10) == b"def"
        assert protocol.transport.get_write_buffer_size() == 0


@cases("size", [475, 476, 477, 476 + 1904, 1_000_000])
async def test_much_at_once_is_read_to_its_end(size: int) -> None:
    async with connected() as (protocol, theirs):
        sent = bytes(index % 251 for index in range(size))
        await asyncio.get_running_loop().sock_sendall(theirs, sent)
        await protocol.until(lambda: len(protocol.data) >= size)
        assert protocol.data == sent
        theirs.send(b"more")
        await protocol.until(lambda: protocol.data.endswith(b"more"))


async def test_the_end_behind_bytes_is_noticed_and_comes_last() -> None:
    async with connected() as (protocol, theirs):
        theirs.send(b"last words")
        theirs.shutdown(socket.SHUT_WR)
        await protocol.until(lambda: "lost" in protocol.told)
        assert protocol.data == b"last words"
        assert protocol.told == ["made", "eof", "lost"]


async def test_answers_to_last_words_are_sent() -> None:
    async with connected() as (protocol, theirs):
        loop = asyncio.get_running_loop()
        protocol.on_data = lambda data: cast("None", loop.call_soon(protocol.transport.write, b"answer"))
        theirs.send(b"last words")
        theirs.shutdown(socket.SHUT_WR)
        await protocol.until(lambda: "lost" in protocol.told)
        assert theirs.recv(10) == b"answer"


async def test_nothing_is_given_while_reading_is_paused() -> None:
    async with connected() as (protocol, theirs):
        protocol.transport.pause_reading()
        theirs.send(b"abc")
        theirs.shutdown(socket.SHUT_WR)
        for _ in range(5):
            await asyncio.sleep(0)
        assert protocol.data == b""
        protocol.transport.resume_reading()
        await protocol.until(lambda: "lost" in protocol.told)
        assert protocol.data == b"abc"


async def test_reading_can_be_paused_between_two_pieces() -> None:
    async with connected() as (protocol, theirs):
        protocol.on_data = lambda data: protocol.transport.pause_reading()
        theirs.send(bytes(476) + b"rest")
        await protocol.until(lambda: protocol.pieces == 1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert protocol.pieces == 1
        protocol.transport.resume_reading()
        await protocol.until(lambda: protocol.pieces == 2)
        assert protocol.data == bytes(476) + b"rest"


async def test_what_the_peer_does_not_take_waits_and_is_told() -> None:
    async with connected() as (protocol, theirs):
        transport = protocol.transport
        transport.set_write_buffer_limits(high=100_000)
        pieces = [bytes([number]) * 10_000 for number in range(200)]
        for piece in pieces:
            transport.write(piece)
        assert protocol.told == ["made", "paused"]
        waiting = transport.get_write_buffer_size()
        assert 100_000 < waiting < 2_000_000
        assert await read_all(theirs, 2_000_000) == b"".join(pieces)
        await protocol.until(lambda: "resumed" in protocol.told)
        assert protocol.told == ["made", "paused", "resumed"]
        assert transport.get_write_buffer_size() == 0
        transport.write(b"next")
        assert theirs.recv(10) == b"next"


async def test_closing_sends_what_waits_and_aborting_does_not() -> None:
    async with connected() as (protocol, theirs):
        protocol.transport.write(bytes(2_000_000))
        protocol.transport.close()
        assert protocol.transport.is_closing()
        protocol.transport.write(b"too late")
        assert await read_all(theirs, 2_000_000) == bytes(2_000_000)
        await protocol.until(lambda: "lost" in protocol.told)
        assert protocol.error is None
    async with connected() as (protocol, theirs):
        protocol.transport.write(bytes(2_000_000))
        protocol.transport.abort()
        protocol.transport.abort()
        await protocol.until(lambda: "lost" in protocol.told)
        with pytest.raises(AssertionError):
            assert len(await asyncio.wait_for(read_until_end(theirs), TIMEOUT_S)) == 2_000_000


@cases(("sent_before", "sent_while_closing"), [(bytes(100_000), b""), (b"x", b"more")])
async def test_last_words_arrive_though_not_all_was_read(sent_before: bytes, sent_while_closing: bytes) -> None:
    words = b"enough" + bytes(8_000_000 if sent_while_closing else 0)
    ours, theirs = tcp_pair()
    ours.setblocking(False)
    theirs.setblocking(False)
    poller, protocol = Poller(lambda: None, Pressure()), Recorder()
    poller.connect(ProtocolTransport(poller, ours, protocol))
    with theirs:

        def refuse(data: bytes) -> None:
            protocol.transport.write(words)
            protocol.transport.close()

        protocol.on_data = refuse
        theirs.send(sent_before)
        await protocol.until(lambda: protocol.pieces > 0)
        theirs.send(sent_while_closing)
        assert await asyncio.wait_for(read_until_end(theirs), TIMEOUT_S) == words
        await protocol.until(lambda: "lost" in protocol.told)
        assert protocol.pieces == 1
    poller.close()


async def test_last_words_arrive_though_the_peer_goes_on_sending() -> None:
    async with connected(tcp_pair()) as (protocol, theirs):

        def refuse(data: bytes) -> None:
            protocol.transport.write(b"enough")
            protocol.transport.close()

        protocol.on_data = refuse
        theirs.send(b"x")
        await protocol.until(lambda: "lost" in protocol.told)  # its place is free at once
        for _ in range(3):  # of a socket that is closed, the first would bring a reset
            await asyncio.get_running_loop().sock_sendall(theirs, bytes(100_000))
        assert await asyncio.wait_for(read_until_end(theirs), TIMEOUT_S) == b"enough"
        assert protocol.data == b"x"


async def test_a_peer_that_never_ends_is_left() -> None:
    async with connected(tcp_pair()) as (protocol, _):
        protocol.transport.close()
        await protocol.until(lambda: "lost" in protocol.told)
        assert protocol.transport.connection.fileno() >= 0
        protocol.poller.close()
        assert protocol.transport.connection.fileno() == -1
        one, other = socket.socketpair()  # the first takes the number that is free
        with one, other:
            one.setblocking(False)
            other.send(b"x")
            protocol.transport.read()  # that was due still
            assert one.recv(1) == b"x"


async def test_many_peers_that_end_soon_cost_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), 0
    call_later = loop.call_later

    def counted(delay: float, callback: Callable[..., object], *args: Any, **named: Any) -> asyncio.TimerHandle:
        nonlocal timers
        timers += delay < TIMEOUT_S / 2  # the others are the test's
        return call_later(delay, callback, *args, **named)

    monkeypatch.setattr(loop, "call_later", counted)
    poller = Poller(lambda: None, Pressure())
    for _ in range(5):
        ours, theirs = tcp_pair()
        ours.setblocking(False)
        protocol = Recorder()
        poller.connect(ProtocolTransport(poller, ours, protocol))
        protocol.transport.close()
        await protocol.until(partial(protocol.told.__contains__, "lost"))
        theirs.close()
        async with asyncio.timeout(TIMEOUT_S):
            while ours.fileno() >= 0:  # noqa: ASYNC110 - the poller does not say that it has let go
                await asyncio.sleep(0)
    poller.close()
    assert timers == 1


async def test_of_many_peers_that_never_end_the_first_are_left() -> None:
    poller, all_of_theirs, all_of_ours = Poller(lambda: None, Pressure()), [], []
    for _ in range(258):
        ours, theirs = tcp_pair()
        ours.setblocking(False)
        protocol = Recorder()
        poller.connect(ProtocolTransport(poller, ours, protocol))
        protocol.transport.close()
        await protocol.until(partial(protocol.told.__contains__, "lost"))
        all_of_theirs.append(theirs)
        all_of_ours.append(ours)
    assert [ours.fileno() == -1 for ours in all_of_ours] == [True] * 2 + [False] * 256
    poller.close()
    assert all(ours.fileno() == -1 for ours in all_of_ours)
    for theirs in all_of_theirs:
        theirs.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection over TCP, the one that accepted it first."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
    return ours, theirs


async def read_until_end(theirs: socket.socket) -> bytes:
    loop, found = asyncio.get_running_loop(), b""
    while piece := await loop.sock_recv(theirs, 1 << 20):
        found += piece
    return found


async def test_a_peer_that_is_gone_is_noticed_by_writing_and_while_closing() -> None:
    async with connected() as (protocol, theirs):
        protocol.transport.pause_reading()
        theirs.close()
        protocol.transport.write(b"x")
        await protocol.until(lambda: "lost" in protocol.told)
        assert isinstance(protocol.error, BrokenPipeError)
    async with connected() as (protocol, theirs):
        protocol.transport.write(bytes(2_000_000))
        protocol.transport.close()
        theirs.close()
        await protocol.until(lambda: "lost" in protocol.told)
        assert isinstance(protocol.error, OSError)


async def test_a_protocol_that_fails_loses_its_connection_and_the_loop_is_told() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))

    def fail(data: bytes) -> None:
        raise RuntimeError("wrong")

    async with connected() as (protocol, theirs), connected() as (other, further):
        protocol.on_data = fail
        theirs.send(b"x")
        further.send(b"y")
        await protocol.until(lambda: "lost" in protocol.told)
        await other.until(lambda: other.data == b"y")
        assert [str(error) for error in told] == ["wrong"]
        assert theirs.recv(10) == b""


async def test_another_protocol_gets_what_comes_from_then_on() -> None:
    async with connected() as (protocol, theirs):
        second = Recorder()
        protocol.transport.set_protocol(second)
        theirs.send(b"abc")
        await second.until(lambda: second.data == b"abc")
        protocol.transport.set_protocol(protocol)


async def test_without_epoll_the_event_loop_serves() -> None:
    async with listening(uses_epoll=False) as rig:
        client = await rig.client()
        await client.ask(PINGREQ, PINGRESP)
        (link,) = rig.listener.connections.links
        assert not isinstance(link, SocketTransport)
