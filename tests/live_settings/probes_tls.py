"""Probes of TLS and WebSocket at listeners."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest
from websockets.exceptions import InvalidStatus

from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from live_settings.table import World, listener_probe
from support.certificates import Authority
from support.packets import properties
from support.websocket_client import WebSocketStream, open_websocket

_TLS = "ssl wss"
_WS = "ws wss"
_CONNECT = encode_packet(p.Connect(p.V5, "probe", True, 0, None, None, None, properties()), p.V5)


def _other(world: World) -> Authority:
    """Another authority, of which `other.pem` is."""
    directory = world.directory / "other"
    directory.mkdir(exist_ok=True)
    return Authority(directory)


async def _session(world: World, tls: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """What a TLS client and the node agree on."""
    sock = await world.running.plain(world.listener)
    _, writer = await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=name)
    found = writer.get_extra_info("ssl_object")
    assert isinstance(found, ssl.SSLObject)
    writer.close()
    return found


async def _is_let_in(world: World, tls: ssl.SSLContext) -> bool:
    """Whether a client with this certificate comes through its handshake."""
    sock = await world.running.plain(world.listener)
    try:
        reader, writer = await asyncio.open_connection(sock=sock, ssl=tls, server_hostname="localhost")
        writer.write(b"GET / HTTP/1.1\r\n\r\n" if world.listener.startswith("wss") else _CONNECT)
        data = await reader.read(1)
        writer.close()
    except (ssl.SSLError, ConnectionError):
        return False
    return data != b""


@listener_probe(_TLS, "ssl_options.certfile", 'ssl_options.certfile = "DIRECTORY/other/server.pem"')
async def certfile(world: World) -> AsyncIterator[None]:
    client, other = await world.connect("stays"), _other(world)
    other.server()
    yield
    await _session(world, ssl.create_default_context(cafile=str(other.cafile)))
    await client.ping()


_LOCKED = 'certfile = "DIRECTORY/locked.crt", keyfile = "DIRECTORY/locked.key", password = secret'


async def _locked(world: World) -> AsyncIterator[None]:
    client = await world.connect("stays")
    certificate, _ = world.authority.locked_server("secret")
    pem, end, _ = certificate.read_text().partition("-----END CERTIFICATE-----")
    yield
    shown = (await _session(world, world.tls())).getpeercert(binary_form=True)
    assert shown == ssl.PEM_cert_to_DER_cert(pem + end)
    await client.ping()


listener_probe(_TLS, "ssl_options.keyfile", f"ssl_options {{ {_LOCKED} }}")(_locked)
listener_probe(_TLS, "ssl_options.password", f"ssl_options {{ {_LOCKED} }}")(_locked)


@listener_probe(
    _TLS, "ssl_options.cacertfile", 'ssl_options { cacertfile = "DIRECTORY/other/ca.pem", fail_if_no_peer_cert = true }'
)
async def cacertfile(world: World) -> AsyncIterator[None]:
    client, other = await world.connect("stays"), _other(world)
    yield
    assert await _is_let_in(world, world.tls(other.client("joe")))
    assert not await _is_let_in(world, world.tls(world.authority.client("joe")))
    await client.ping()


@listener_probe(_TLS, "ssl_options.fail_if_no_peer_cert", "ssl_options.fail_if_no_peer_cert = true")
async def fail_if_no_peer_cert(world: World) -> AsyncIterator[None]:
    client = await world.connect("stays")
    yield
    assert not await _is_let_in(world, world.tls())
    await client.ping()


@listener_probe(_TLS, "ssl_options.verify", "ssl_options.verify = verify_none")
async def verify(world: World) -> AsyncIterator[None]:
    other = world.tls(_other(world).client("joe"))
    assert not await _is_let_in(world, other)
    yield
    assert await _is_let_in(world, other)


@listener_probe(_TLS, "ssl_options.versions", "ssl_options.versions = [tlsv1.2]")
async def versions(world: World) -> AsyncIterator[None]:
    assert (await _session(world, world.tls())).version() == "TLSv1.3"
    yield
    assert (await _session(world, world.tls())).version() == "TLSv1.2"


async def _cipher(world: World) -> str:
    tls = world.tls()
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384")
    cipher = (await _session(world, tls)).cipher()
    assert cipher is not None
    return cipher[0]


@listener_probe(_TLS, "ssl_options.ciphers", 'ssl_options.ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384"')
async def ciphers(world: World) -> AsyncIterator[None]:
    yield
    assert await _cipher(world) == "ECDHE-ECDSA-AES256-GCM-SHA384"


@listener_probe(_TLS, "ssl_options.honor_cipher_order", "ssl_options.honor_cipher_order = false")
async def honor_cipher_order(world: World) -> AsyncIterator[None]:
    assert await _cipher(world) == "ECDHE-ECDSA-AES256-GCM-SHA384"  # OpenSSL's default begins with it
    yield
    assert await _cipher(world) == "ECDHE-ECDSA-AES128-GCM-SHA256"


async def _revoked(world: World) -> AsyncIterator[None]:
    certificate = world.authority.client("gone")
    world.authority.revoke(certificate).replace(world.directory / "crl.pem")
    assert await _is_let_in(world, world.tls(certificate))
    yield
    assert not await _is_let_in(world, world.tls(certificate))


for _name in ("enable_crl_check", "crlfile"):
    listener_probe(
        _TLS, f"ssl_options.{_name}", 'ssl_options { enable_crl_check = true, crlfile = "DIRECTORY/crl.pem" }'
    )(_revoked)


@listener_probe(_TLS, "ssl_options.handshake_timeout", "ssl_options.handshake_timeout = 100ms")
async def handshake_timeout(world: World) -> AsyncIterator[None]:
    yield
    await world.until_refused()


@listener_probe(
    _TLS,
    "ssl_options.sni",
    'ssl_options.sni = [{ server_name = "other.test", certfile = "DIRECTORY/other/server.pem", '
    'keyfile = "DIRECTORY/other/server.pem", password = "" }]',
)
async def sni(world: World) -> AsyncIterator[None]:
    other = _other(world)
    other.server("other.test")
    yield
    await _session(world, ssl.create_default_context(cafile=str(other.cafile)), "other.test")
    await _session(world, world.tls())


# --- WebSocket


async def _websocket(world: World, path: str = "/mqtt", **options: object) -> WebSocketStream:
    tls = world.tls() if world.listener.startswith("wss") else None
    sock = await world.running.plain(world.listener)
    stream = await open_websocket(sock, path, tls, **options)  # type: ignore[arg-type]  # its options by name
    world.closes(stream)
    return stream


async def _is_refused(world: World, path: str = "/mqtt", **options: object) -> None:
    with pytest.raises(InvalidStatus):
        await _websocket(world, path, **options)


@listener_probe(_WS, "websocket.mqtt_path", 'websocket.mqtt_path = "/other"')
async def mqtt_path(world: World) -> AsyncIterator[None]:
    client = await world.connect("stays")
    yield
    await _is_refused(world)
    await world.connect()
    await client.ping()


@listener_probe(_WS, "websocket.mqtt_piggyback", "websocket.mqtt_piggyback = single")
async def mqtt_piggyback(world: World) -> AsyncIterator[None]:
    yield
    stream = await _websocket(world)
    stream.write(_CONNECT + b"\xc0\x00" * 2)
    assert [len(await stream.read()) for _ in range(3)][1:] == [2, 2]


@listener_probe(_WS, "websocket.supported_subprotocols", 'websocket.supported_subprotocols = "mqtt-v5"')
async def supported_subprotocols(world: World) -> AsyncIterator[None]:
    yield
    await _is_refused(world)
    await _websocket(world, subprotocol="mqtt-v5")


@listener_probe(_WS, "websocket.fail_if_no_subprotocol", "websocket.fail_if_no_subprotocol = false")
async def fail_if_no_subprotocol(world: World) -> AsyncIterator[None]:
    await _is_refused(world, subprotocol="")
    yield
    await _websocket(world, subprotocol="")


_ORIGINS = 'check_origin_enable = true, check_origins = "https://good.test"'


async def _origins(world: World) -> AsyncIterator[None]:
    await _websocket(world, origin="https://bad.test")
    yield
    await _is_refused(world, origin="https://bad.test")
    await _websocket(world, origin="https://good.test")
    await _websocket(world)


for _name in ("check_origin_enable", "check_origins"):
    listener_probe(_WS, f"websocket.{_name}", f"websocket {{ {_ORIGINS} }}")(_origins)


@listener_probe(_WS, "websocket.allow_origin_absence", f"websocket {{ {_ORIGINS}, allow_origin_absence = false }}")
async def allow_origin_absence(world: World) -> AsyncIterator[None]:
    yield
    await _is_refused(world)


async def _agreed(world: World) -> str:
    """How messages are compressed, as the node has agreed; they come through."""
    stream = await _websocket(world, compress=True)
    stream.write(_CONNECT)
    assert (await stream.read())[0] == 0x20
    response = stream.connection.response
    assert response is not None
    return response.headers.get("Sec-WebSocket-Extensions", "")


@listener_probe(_WS, "websocket.compress", "websocket.compress = true")
async def compress(world: World) -> AsyncIterator[None]:
    assert await _agreed(world) == ""
    yield
    assert "permessage-deflate" in await _agreed(world)


def _deflate(setting: str, value: str, told: str) -> None:
    async def run(world: World) -> AsyncIterator[None]:
        yield
        assert told in await _agreed(world)

    text = f"websocket {{ compress = true, deflate_opts.{setting} = {value} }}"
    listener_probe(_WS, f"websocket.deflate_opts.{setting}", text)(run)


_deflate("level", "1", "permessage-deflate")
_deflate("mem_level", "1", "permessage-deflate")
_deflate("server_context_takeover", "false", "server_no_context_takeover")
_deflate("client_context_takeover", "false", "client_no_context_takeover")
_deflate("server_max_window_bits", "10", "server_max_window_bits=10")
_deflate("client_max_window_bits", "10", "client_max_window_bits=10")


@listener_probe(_WS, "websocket.max_frame_size", "websocket.max_frame_size = 100B")
async def max_frame_size(world: World) -> AsyncIterator[None]:
    before = await world.connect("stays")
    yield
    client = await world.connect()
    await client.publish("t", b"x" * 200)
    await client.until_closed()
    await before.publish("t", b"x" * 200, 1)


@listener_probe(_WS, "websocket.idle_timeout", "websocket.idle_timeout = 1s")
async def idle_timeout(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    await client.until_closed()


_PROXY = "proxy_address_header = X-Forwarded-For, proxy_port_header = X-Forwarded-Port"


async def _behind_proxy(world: World) -> AsyncIterator[None]:
    yield
    stream = await _websocket(world, headers={"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Port": "5000"})
    stream.write(_CONNECT)
    await stream.read()
    assert world.running.client("probe").peername == "192.0.2.7:5000"


for _name in ("proxy_address_header", "proxy_port_header"):
    listener_probe(_WS, f"websocket.{_name}", f"websocket {{ {_PROXY} }}")(_behind_proxy)
