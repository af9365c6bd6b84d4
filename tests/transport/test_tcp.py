"""What clients of a TCP listener see: addresses, limits, slow peers, the end."""

import asyncio
import errno
import resource
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.config.access_rules import parse_access_rule
from heliograph.config.listeners import TcpListener, TcpOptions
from heliograph.settings.units import Address, Rate, UnixAddress
from heliograph.transport.errors import ListenerError
from heliograph.transport.open_files import OpenFiles
from support.cases import cases
from support.listening import ANY_PORT, CONNACK, CONNECT, DISCONNECT, PINGREQ, PINGRESP, WAIT_S, Rig, Socket, listening
from support.options import CHANNEL
from support.wire import wire


async def test_a_client_is_served() -> None:
    async with listening() as rig:
        client = await rig.client()
        await client.ask(PINGREQ, PINGRESP)
        assert rig.count("current_connections") == 1
        await client.say(DISCONNECT)
        assert await client.hear_the_end() == b""
        await rig.until("current_connections", 0)


async def test_ipv6() -> None:
    async with Rig(settings=TcpListener(bind=Address("::1", 0))) as rig:
        assert rig.listener.address == f"tcp://[::1]:{rig.port}"
        reader, writer = await asyncio.open_connection("::1", rig.port)
        writer.write(CONNECT)
        assert await reader.readexactly(len(CONNACK)) == CONNACK
        writer.close()


async def test_every_interface_is_of_both_families() -> None:
    async with Rig(settings=TcpListener(bind=Address("::", 0))) as rig:
        for host in ("127.0.0.1", "::1"):
            reader, writer = await asyncio.open_connection(host, rig.port)
            writer.write(b"no MQTT")
            assert await reader.read() == b""
            writer.close()
    peers = [peername for peername, _, _ in rig.reports]
    assert [peername.rpartition(":")[0] for peername in peers] == ["127.0.0.1", "[::1]"]


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "mqtt.sock"
    async with Rig(settings=TcpListener(bind=UnixAddress(str(path)))) as rig:
        assert rig.listener.address == f"unix:{path}"
        client = await rig.unix_socket(str(path))
        await client.ask(CONNECT, CONNACK)
    assert not path.exists()


async def test_a_unix_socket_that_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mqtt.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with Rig(settings=TcpListener(bind=UnixAddress(str(path)))) as rig:
        await (await rig.unix_socket(str(path))).ask(CONNECT, CONNACK)


async def test_a_unix_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    settings = TcpListener(bind=UnixAddress(str(tmp_path / "mqtt.sock")))
    async with Rig(settings=settings) as rig:
        with pytest.raises(ListenerError, match="another program listens there"):
            await Rig(settings=settings).listener.start()
        await (await rig.unix_socket(str(tmp_path / "mqtt.sock"))).ask(CONNECT, CONNACK)


async def test_a_file_is_not_replaced_by_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(ListenerError, match="a file is there that is no socket"):
        await Rig(settings=TcpListener(bind=UnixAddress(str(path)))).listener.start()
    assert path.read_text() == "data"


async def test_an_address_in_use_is_told_with_the_setting() -> None:
    async with listening() as rig:
        other = Rig(settings=TcpListener(bind=Address("127.0.0.1", rig.port)))
        with pytest.raises(ListenerError) as caught:
            await other.listener.start()
        port = rig.port
    assert str(caught.value) == (
        f"listener tcp:test cannot bind 127.0.0.1:{port}: another program listens there. Choose another address "
        "with listeners.tcp.test.bind in the configuration or with HELIOGRAPH_LISTENERS__TCP__TEST__BIND=127.0.0.1:2883"
    )


async def test_more_than_max_connections_are_refused() -> None:
    async with listening(settings=TcpListener(bind=ANY_PORT, max_connections=2)) as rig:
        first, _ = await rig.client(), await rig.socket()
        await rig.until("current_connections", 2)
        third = await rig.socket()
        assert await third.hear_the_end() == b""
        assert rig.count("refused_connections") == 1
        await first.say(DISCONNECT)
        await rig.until("current_connections", 1)
        await rig.client()


async def test_a_place_is_free_as_soon_as_its_client_has_closed() -> None:
    async with listening(settings=TcpListener(bind=ANY_PORT, max_connections=1)) as rig:
        loop = asyncio.get_running_loop()
        for _ in range(5):
            # No turn of the event loop lies between the end of one and the beginning of the next.
            with socket.create_connection(("127.0.0.1", rig.port)) as theirs:
                theirs.setblocking(False)
                await loop.sock_sendall(theirs, CONNECT)
                async with asyncio.timeout(WAIT_S):
                    assert await loop.sock_recv(theirs, 10) == CONNACK
        assert rig.count("refused_connections") == 0


@cases(
    ("rules", "is_served"),
    [
        ([], True),
        (["deny 10.0.0.0/8"], True),
        (["deny 127.0.0.0/8"], False),
        (["allow 127.0.0.1", "deny all"], True),
        (["deny all", "allow 127.0.0.1"], False),
        (["deny ::/0"], True),
    ],
)
async def test_the_first_rule_that_fits_decides(rules: list[str], is_served: bool) -> None:
    settings = TcpListener(bind=ANY_PORT, access_rules=tuple(map(parse_access_rule, rules)))
    async with listening(settings=settings) as rig:
        client = await rig.socket()
        if is_served:
            await client.ask(CONNECT, CONNACK)
        else:
            assert await client.hear_the_end() == b""
        assert rig.count("denied_connections") == (0 if is_served else 1)


async def test_rules_are_about_ipv4_addresses_that_come_over_ipv6_too() -> None:
    rules = (parse_access_rule("deny 127.0.0.1"),)
    async with listening(settings=TcpListener(bind=Address("::", 0), access_rules=rules)) as rig:
        assert await (await rig.socket()).hear_the_end() == b""
        assert rig.count("denied_connections") == 1


async def test_connections_over_the_rate_wait_and_are_served_later() -> None:
    # A bucket of two: the third waits until the (real) clock has another token, a twentieth of a second later.
    settings = TcpListener(bind=ANY_PORT, max_conn_rate=Rate(2, 0.1))
    async with listening(settings=settings) as rig:
        clients = [await rig.socket() for _ in range(3)]
        for client in clients[:2]:
            await client.ask(CONNECT.replace(b"\x01c", b"\x01a"), CONNACK)
        await rig.reached("accept_pauses", 1)  # it looks again as real time passes
        assert rig.count("current_connections") == 2 - 1  # the second took the client id over
        rig.now_us += 60_000
        await clients[2].ask(CONNECT, CONNACK)


async def test_a_process_without_files_accepts_when_it_has_some_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("heliograph.transport.acceptor.AFTER_FAILURE_S", 0.01)
    async with listening() as rig:
        client = await rig.client()
        waiting = socket.socket()
        waiting.setblocking(False)
        with no_more_files():
            with pytest.raises(BlockingIOError):
                waiting.connect(("127.0.0.1", rig.port))
            await rig.reached("accept_failures", 3)
            await client.ask(PINGREQ, PINGRESP)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(waiting, CONNECT)
        assert await loop.sock_recv(waiting, 100) == CONNACK
        waiting.close()
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1, "once, not at every attempt"
    assert "Too many open files" in told[0].getMessage()


async def test_a_connection_that_got_a_file_kept_for_others_is_served_once_it_can_have_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("heliograph.transport.acceptor.AFTER_FAILURE_S", 0.01)
    first_reserved = [1_000_000]
    monkeypatch.setattr(OpenFiles, "is_reserved", lambda self, descriptor: descriptor >= first_reserved[0])
    async with listening() as rig:
        client = await rig.client()
        first_reserved[0] = 0
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        waiting = Socket(reader, writer)
        await waiting.say(CONNECT)
        await rig.reached("accept_failures", 3)
        assert rig.count("out_of_files") == 1
        assert rig.count("current_connections") == 1
        await client.ask(PINGREQ, PINGRESP)
        first_reserved[0] = 1_000_000
        assert await waiting.hear(len(CONNACK)) == CONNACK
        assert rig.count("out_of_files") == 0
        first_reserved[0] = 0
        left = Socket(*await asyncio.open_connection("127.0.0.1", rig.port))
        await rig.reached("accept_failures", rig.count("accept_failures") + 1)
        await waiting.close()
    assert await left.hear_the_end() == b""
    await left.close()


class no_more_files:  # noqa: N801 - reads as a statement
    """The process cannot open another file."""

    def __enter__(self) -> None:
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.socket() as next_file:
            lowest = next_file.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, self._limits[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)


async def test_socket_options_reach_connections() -> None:
    options = TcpOptions(keepalive="300,30,5", sndbuf=65536, recbuf=32768)
    found: dict[str, int] = {}
    async with listening(settings=TcpListener(bind=ANY_PORT, tcp_options=options)) as rig:
        await rig.client()
        (link,) = rig.listener.connections.links
        sock = link.connection  # type: ignore[attr-defined]  # connections over TCP have one
        found = {
            "keepalive": sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            "idle": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            "interval": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            "probes": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
            "nodelay": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
            "sndbuf": sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2,  # the system doubles it
            "recbuf": sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2,
        }
    assert found == {
        "keepalive": 1,
        "idle": 300,
        "interval": 30,
        "probes": 5,
        "nodelay": 1,
        "sndbuf": 65536,
        "recbuf": 32768,
    }


async def test_nodelay_can_be_switched_off() -> None:
    options = TcpOptions(nodelay=False)
    async with listening(settings=TcpListener(bind=ANY_PORT, tcp_options=options)) as rig:
        await rig.client()
        (link,) = rig.listener.connections.links
        sock = link.connection  # type: ignore[attr-defined]  # connections over TCP have one
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0


async def test_a_peer_that_does_not_read_is_cut_after_send_timeout() -> None:
    options = TcpOptions(sndbuf=4096, high_watermark=4096, send_timeout=5.0)
    async with listening(settings=TcpListener(bind=ANY_PORT, tcp_options=options)) as rig:
        stalled = await rig.socket()
        subscribe = wire('82 # 0001 "t" 00')
        await stalled.ask(CONNECT + subscribe, CONNACK + wire("90 # 0001 00"))
        stalled.stop_reading()
        publisher = await rig.socket()
        await publisher.ask(CONNECT.replace(b"\x01c", b"\x01p"), CONNACK)
        packet = wire('30 # "t"' + " 00" * 60_000)
        for _ in range(200):
            await publisher.ask(packet + PINGREQ, PINGRESP)
            if rig.listener.connections.congested:
                break
        await rig.advance(4.0)
        assert rig.count("send_timeouts") == 0
        await rig.advance(2.0)
        assert rig.count("send_timeouts") == 1
        await rig.until("current_connections", 1)


@cases("first", [b"", CONNECT[:5]], ids=["silent", "half a CONNECT"])
async def test_a_connection_without_connect_is_closed(first: bytes) -> None:
    async with listening(options=replace(CHANNEL, idle_timeout_us=3_000_000)) as rig:
        client = await rig.socket()
        await client.say(first)
        await rig.welcomed(1)
        await rig.advance(2.0)
        assert rig.count("current_connections") == 1
        await rig.advance(2.0)
        assert await client.hear_the_end() == b""


async def test_stopping_leaves_nothing() -> None:
    rig = Rig()
    await rig.listener.start()
    port = rig.port
    client = await rig.client()
    rig.listener.stop_accepting()
    with pytest.raises(OSError, match=str(errno.ECONNREFUSED)):
        await asyncio.open_connection("127.0.0.1", port)
    await client.ask(PINGREQ, PINGRESP)
    await rig.listener.close(0.01)
    assert await client.hear_the_end() == b""
    await client.close()


@pytest.fixture(autouse=True)
def _quiet_loop(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing fails in a callback of the event loop."""
    yield
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
