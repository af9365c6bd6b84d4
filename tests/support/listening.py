"""A listener with the production kernel behind it, on an event loop and loopback, under a clock that a test moves.

`Rig` is the node without storage: its clock stands until `advance`, as the node's ticker would tell it. A `Socket` is a
client that says bytes and hears bytes; nothing in it knows more of a protocol than a test says.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Self, cast

from heliograph.broker.hooks import Hooks
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Router
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.config import listeners as config
from heliograph.session.table import SessionTable
from heliograph.settings.units import Address
from heliograph.transport.listener import Listener
from heliograph.transport.peer_certificate import PeerIdentity
from support.options import CHANNEL
from support.wire import wire

WAIT_S: Final = 10.0
ANY_PORT: Final = Address("127.0.0.1", 0)

CONNECT: Final = wire('10 # "MQTT" 04 02 0000 "c"')
CONNACK: Final = wire("20 # 00 00")
PINGREQ: Final = bytes.fromhex("c000")
PINGRESP: Final = bytes.fromhex("d000")
DISCONNECT: Final = bytes.fromhex("e000")


class Socket:
    """One client's end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def address(self) -> str:
        """Where it connects from, as `host:port`."""
        host, port = self.writer.get_extra_info("sockname")[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def stop_reading(self) -> None:
        """Take nothing more from the system, which then takes no more than it has room for."""
        cast("asyncio.ReadTransport", self.writer.transport).pause_reading()

    async def hear(self, count: int) -> bytes:
        """The next `count` bytes."""
        async with asyncio.timeout(WAIT_S):
            return await self.reader.readexactly(count)

    async def hear_until(self, end: bytes) -> bytes:
        async with asyncio.timeout(WAIT_S):
            return await self.reader.readuntil(end)

    async def hear_the_end(self) -> bytes:
        """What comes before the other side closes."""
        async with asyncio.timeout(WAIT_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    async def ask(self, packet: bytes, answer: bytes) -> None:
        """Say a packet and hear exactly this answer."""
        await self.say(packet)
        assert await self.hear(len(answer)) == answer

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


class Rig:
    """A started listener; use it as a context manager.

    Args:
        kind: `tcp`, `ssl`, `ws` or `wss`.
        settings: Its settings; any free port unless they say otherwise.
        options: What its channels are given.
    """

    def __init__(
        self,
        kind: str = "tcp",
        settings: config.ListenerConfig | None = None,
        options: ChannelOptions | None = None,
        identity: PeerIdentity | None = None,
        *,
        uses_epoll: bool = True,
    ) -> None:
        self.now_us = 1_000_000
        self.reports: list[tuple[str, str, str]] = []  # peer, client id and why, of conversations that ended badly
        loop = asyncio.get_running_loop()
        options = options or CHANNEL
        self.broker = Broker(router=Router(options.max_topic_levels, 100), hooks=Hooks(lambda name, error: None))
        self.context = ChannelContext(
            1,
            self.broker,
            SessionTable(self.broker),
            lambda: self.now_us,
            loop.call_soon,
            loop.call_later,
            lambda: "assigned",
            lambda *what: self.reports.append(what),
        )
        default = config.TcpListener(bind=ANY_PORT)
        given = settings or default
        self.listener = Listener(kind, "test", given, self.context, options, identity, uses_epoll=uses_epoll)
        self._sockets: list[Socket] = []

    async def __aenter__(self) -> Self:
        await self.listener.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listener.stop_accepting()
        for each in self._sockets:
            await each.close()
        await self.listener.close(WAIT_S)

    @property
    def port(self) -> int:
        return self.listener.port

    def count(self, name: str) -> int:
        """One of the listener's counters."""
        return self.listener.statistics()[name]

    async def until(self, name: str, count: int) -> None:
        """Let the event loop run until a counter is there."""
        async with asyncio.timeout(WAIT_S):
            while self.count(name) != count:  # noqa: ASYNC110 - nothing tells of a counter
                await asyncio.sleep(0)

    async def reached(self, name: str, count: int) -> None:
        """Let the event loop run until a counter that only grows is there, or beyond it."""
        async with asyncio.timeout(WAIT_S):
            while self.count(name) < count:  # noqa: ASYNC110 - nothing tells of a counter
                await asyncio.sleep(0)

    async def welcomed(self, count: int) -> None:
        """Let the event loop run until so many connections stand."""
        async with asyncio.timeout(WAIT_S):
            while len(self.listener.connections.links) != count:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Let time pass, as the node's ticker tells it."""
        self.now_us += round(seconds * 1_000_000)
        self.broker.begin_turn(self.now_us)
        while self.context.channels.tick(self.now_us):
            pass
        self.listener.tick(self.now_us)
        await asyncio.sleep(0)

    async def socket(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str = "localhost",
        first: bytes = b"",
        recbuf: int | None = None,
    ) -> Socket:
        """A client's connection; `first` is said before TLS begins, `recbuf` makes it take less at a time."""
        raw = socket.socket()
        if recbuf is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, recbuf)
        raw.connect(("127.0.0.1", self.port))
        raw.setblocking(False)
        if first:
            raw.sendall(first)
        name = server_name if tls is not None else None
        async with asyncio.timeout(WAIT_S):
            streams = await asyncio.open_connection(sock=raw, ssl=tls, server_hostname=name)
        self._sockets.append(Socket(*streams))
        return self._sockets[-1]

    async def unix_socket(self, path: str) -> Socket:
        self._sockets.append(Socket(*await asyncio.open_unix_connection(path)))
        return self._sockets[-1]

    async def client(self, *, tls: ssl.SSLContext | None = None, first: bytes = b"") -> Socket:
        """A client that the broker has answered with CONNACK."""
        client = await self.socket(tls=tls, first=first)
        await client.ask(CONNECT, CONNACK)
        return client


@asynccontextmanager
async def listening(
    kind: str = "tcp",
    settings: config.ListenerConfig | None = None,
    options: ChannelOptions | None = None,
    identity: PeerIdentity | None = None,
    *,
    uses_epoll: bool = True,
) -> AsyncIterator[Rig]:
    """A rig while it is started."""
    async with Rig(kind, settings, options, identity, uses_epoll=uses_epoll) as rig:
        yield rig
