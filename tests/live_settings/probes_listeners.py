"""Probes of what every listener has, whatever its kind."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from live_settings.table import World, listener_probe
from support.mosquitto import free_port
from support.packets import properties, publish

_KINDS = "tcp ssl ws wss"
_PORT = free_port()
_HEADER = b"PROXY TCP4 192.0.2.7 192.0.2.1 5000 1883\r\n"


def _listening(world: World) -> socket.socket:
    return world.running.listener(world.listener).sockets[0]


@listener_probe(_KINDS, "enable", "enable = false")
async def enable(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    port = world.running.listener(world.listener).port
    yield
    assert await client.until_closed() is not None
    try:
        await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return
    raise AssertionError("it still listens")


@listener_probe(_KINDS, "bind", f'bind = "127.0.0.1:{_PORT}"')
async def bind(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    disconnect = await client.until_closed()
    assert disconnect is not None
    assert disconnect.code == rc.ADMINISTRATIVE_ACTION
    assert world.running.listener(world.listener).port == _PORT
    await world.connect()


@listener_probe(_KINDS, "tcp_options.sndbuf", "tcp_options.sndbuf = 64KB")
async def sndbuf(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    assert await client.until_closed() is not None
    assert _listening(world).getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 65536
    await world.connect()


@listener_probe(_KINDS, "tcp_options.recbuf", "tcp_options.recbuf = 64KB")
async def recbuf(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    assert await client.until_closed() is not None
    assert _listening(world).getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 65536
    await world.connect()


@listener_probe(_KINDS, "max_connections", "max_connections = 1")
async def max_connections(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    await world.until_refused()
    await client.ping()


@listener_probe(_KINDS, "max_conn_rate", 'max_conn_rate = "1/1h"')
async def max_conn_rate(world: World) -> AsyncIterator[None]:
    listener = world.running.listener(world.listener)
    yield
    await world.connect()
    await world.plain()
    await world.until(lambda: listener.statistics()["accept_pauses"] > 0)


async def _heard(world: World, count: int) -> int:
    """How many of so many messages the node takes that a new client sends with its CONNECT."""
    watcher = await world.connect("watcher", listener="tcp:default")
    await watcher.subscribe("rate")
    client = await world.open()
    connect = p.Connect(p.V5, "probe", True, 0, None, None, None, properties())
    messages = b"".join(publish("rate", b"x" * 20).data for _ in range(count))
    client.send_bytes(encode_packet(connect, p.V5) + messages)
    await client.take(p.Connack)
    await watcher.publish("rate", b"end", 1)
    payloads = await watcher.payloads()
    assert payloads[-1] == b"end"
    await world.connect(listener="tcp:default")  # which ends the other, that is not read from
    return len(payloads) - 1


@listener_probe(_KINDS, "messages_rate", 'messages_rate = "1/1h"')
async def messages_rate(world: World) -> AsyncIterator[None]:
    yield
    assert await _heard(world, 5) == 1


@listener_probe(_KINDS, "messages_burst", 'messages_rate = "1/1h", messages_burst = 2')
async def messages_burst(world: World) -> AsyncIterator[None]:
    yield
    assert await _heard(world, 5) == 3


@listener_probe(_KINDS, "bytes_rate", 'bytes_rate = "1KB/1h"')
async def bytes_rate(world: World) -> AsyncIterator[None]:
    yield
    assert await _heard(world, 5) == 0


@listener_probe(_KINDS, "bytes_burst", 'bytes_rate = "1KB/1h", bytes_burst = 60B')
async def bytes_burst(world: World) -> AsyncIterator[None]:
    yield
    assert await _heard(world, 5) in (1, 2, 3)


@listener_probe(_KINDS, "access_rules", 'access_rules = ["deny all"]')
async def access_rules(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    await world.until_refused()
    await client.ping()


@listener_probe(_KINDS, "proxy_protocol", "proxy_protocol = true")
async def proxy_protocol(world: World) -> AsyncIterator[None]:
    client = await world.connect("stays")
    yield
    behind = await world.open(header=_HEADER)
    behind.send_connect("probe")
    await behind.take(p.Connack)
    found = world.running.client("probe")
    assert found.peerhost == "192.0.2.7"
    await client.ping()


@listener_probe(_KINDS, "proxy_protocol_timeout", "proxy_protocol = true, proxy_protocol_timeout = 100ms")
async def proxy_protocol_timeout(world: World) -> AsyncIterator[None]:
    yield
    await world.until_refused()


@listener_probe(_KINDS, "zone", "zone = one }, zones.one.mqtt { max_qos_allowed = 1")
async def zone(world: World) -> AsyncIterator[None]:
    yield
    client = await world.open()
    client.send_connect("probe")
    assert (await client.take(p.Connack)).properties.named()["Maximum-QoS"] == 1


@listener_probe(_KINDS, "mountpoint", 'mountpoint = "m/"')
async def mountpoint(world: World) -> AsyncIterator[None]:
    before = await world.connect("before")
    await before.subscribe("m/t")
    yield
    await (await world.connect()).publish("t", b"x", 1)
    assert await before.payloads() == [b"x"]


@listener_probe(_KINDS, "enable_authn", "enable_authn = quick_deny_anonymous")
async def enable_authn(world: World) -> AsyncIterator[None]:
    yield
    client = await world.open()
    client.send_connect("probe")
    assert (await client.take(p.Connack)).code == rc.NOT_AUTHORIZED
    await world.connect(username="joe")


@listener_probe(
    _KINDS,
    "authentication",
    "authentication { mechanism = cinfo, checks = [ { is_match = \"str_eq(username, 'joe')\", result = allow } ] }",
)
async def authentication(world: World) -> AsyncIterator[None]:
    before = await world.connect("before")
    yield
    client = await world.open()
    client.send_connect("probe", username="ann")
    assert (await client.take(p.Connack)).code == rc.NOT_AUTHORIZED
    await world.connect(username="joe")
    await world.connect("elsewhere", listener="tcp:default")
    await before.ping()


@listener_probe(
    _KINDS, "allow_anonymous_network", 'bind = "0.0.0.0:0", allow_anonymous_network = true, enable_authn = false'
)
async def allow_anonymous_network(world: World) -> AsyncIterator[None]:
    assert _listening(world).getsockname()[0] == "127.0.0.1"
    yield
    assert _listening(world).getsockname()[0] == "0.0.0.0"
    await world.connect()


@listener_probe(_KINDS, "tcp_options.backlog", "tcp_options.backlog = 7")
async def backlog(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    told = _listening(world).getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
    assert struct.unpack_from("=8B6I", told)[13] == 7  # of a listening socket: the most that wait
    await client.ping()


@listener_probe(_KINDS, "tcp_options.nodelay", "tcp_options.nodelay = false")
async def nodelay(world: World) -> AsyncIterator[None]:
    client = await world.connect("stays")
    yield
    assert _listening(world).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
    await (await world.connect()).ping()
    await client.ping()


@listener_probe(_KINDS, "tcp_options.keepalive", 'tcp_options.keepalive = "300,30,5"')
async def keepalive(world: World) -> AsyncIterator[None]:
    client = await world.connect("stays")
    yield
    assert _listening(world).getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert _listening(world).getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 300
    await (await world.connect()).ping()
    await client.ping()


@listener_probe(_KINDS, "tcp_options.high_watermark", "tcp_options.high_watermark = 1KB")
async def high_watermark(world: World) -> AsyncIterator[None]:
    client = await world.connect("stays")
    yield
    assert world.running.listener(world.listener).connections.high_watermark == 1024
    await (await world.connect()).ping()
    await client.ping()


@listener_probe(_KINDS, "tcp_options.send_timeout", "tcp_options.send_timeout = 100ms")
async def send_timeout(world: World) -> AsyncIterator[None]:
    client = await world.connect(clean_start=True)
    await client.subscribe("flood")
    client.is_reading.clear()
    sender = await world.connect("sender", listener="tcp:default")
    for _ in range(200):
        await sender.publish("flood", b"x" * 100_000)
    await sender.ping()
    yield
    listener = world.running.listener(world.listener)
    await world.until(lambda: listener.statistics()["send_timeouts"] > 0)
