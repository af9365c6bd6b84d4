"""PROXY protocol headers: read exactly, refused exactly; and what a listener behind a proxy does with them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.config.access_rules import parse_access_rule
from heliograph.config.listeners import SslListener, SslOptions, TcpListener, WsListener
from heliograph.transport.peer_certificate import PeerIdentity
from heliograph.transport.proxy_protocol import (
    LINE_BYTES_MAX,
    SIGNATURE_V2,
    ProxyHeader,
    ProxyHeaderParser,
    ProxyProtocolError,
)
from support.cases import cases
from support.certificates import Authority
from support.listening import ANY_PORT, CONNACK, CONNECT, Rig, listening
from support.websocket import answer, frame, request

LINE = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 1883\r\n"
LINE_6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 1883\r\n"
INET = bytes((192, 0, 2, 7, 192, 0, 2, 1)) + (40000).to_bytes(2, "big") + (1883).to_bytes(2, "big")
INET6 = bytes.fromhex("20010db800000000000000000000000720010db80000000000000000000000019c40075b")


def binary(family: int = 0x11, addresses: bytes = INET, tlvs: bytes = b"", command: int = 0x21) -> bytes:
    rest = addresses + tlvs
    return SIGNATURE_V2 + bytes((command, family)) + len(rest).to_bytes(2, "big") + rest


def tlv(kind: int, value: bytes) -> bytes:
    return bytes((kind,)) + len(value).to_bytes(2, "big") + value


def tls_tlv(name: bytes, *, verified: bool = True, presented: bool = True) -> bytes:
    client = 0x01 | (0x02 if presented else 0)
    return tlv(0x20, bytes((client,)) + (0 if verified else 1).to_bytes(4, "big") + tlv(0x22, name))


def _take(parser: ProxyHeaderParser, data: bytes) -> tuple[ProxyHeader | None, int]:
    count = parser.take(data)
    return parser.header, count


HEADERS = {
    "line": (LINE, ProxyHeader("192.0.2.7:40000")),
    "line of IPv6": (LINE_6, ProxyHeader("[2001:db8::7]:40000")),
    "line of a proxy that does not know": (b"PROXY UNKNOWN\r\n", ProxyHeader(None)),
    "line that says more about the unknown": (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", ProxyHeader(None)),
    "binary": (binary(), ProxyHeader("192.0.2.7:40000")),
    "binary of IPv6": (binary(0x21, INET6), ProxyHeader("[2001:db8::7]:40000")),
    "binary of a Unix socket": (binary(0x31, b"/run/a".ljust(216, b"\0")), ProxyHeader("unix:/run/a")),
    "health check of the proxy": (binary(0x00, b"", command=0x20), ProxyHeader(None)),
    "unspecified family": (binary(0x00, b""), ProxyHeader(None)),
    "extensions that mean nothing here": (binary(tlvs=tlv(0x02, b"host")), ProxyHeader("192.0.2.7:40000")),
    "verified certificate": (binary(tlvs=tls_tlv(b"meter-7")), ProxyHeader("192.0.2.7:40000", "meter-7")),
    "certificate that is not verified": (binary(tlvs=tls_tlv(b"x", verified=False)), ProxyHeader("192.0.2.7:40000")),
    "TLS without certificate": (binary(tlvs=tls_tlv(b"x", presented=False)), ProxyHeader("192.0.2.7:40000")),
}


@cases(("data", "header"), HEADERS.values(), ids=HEADERS)
@given(st.data())
def test_headers_in_any_pieces(data: bytes, header: ProxyHeader, draws: st.DataObject) -> None:
    parser = ProxyHeaderParser()
    stream = data + b"\x10 what follows belongs to somebody else"
    at = 0
    while parser.header is None:
        count = draws.draw(st.integers(1, 60))
        at += parser.take(stream[at : at + count])
    assert parser.header == header
    assert at == len(data)


@cases(
    "data",
    [
        CONNECT,
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 40000\r\n",
        b"PROXY TCP5 192.0.2.7 192.0.2.1 40000 1883\r\n",
        b"PROXY TCP4 192.0.2.256 192.0.2.1 40000 1883\r\n",
        b"PROXY TCP4 2001:db8::7 192.0.2.1 40000 1883\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 65536 1883\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.1 -1 1883\r\n",
        b"PROXY  TCP4 192.0.2.7 192.0.2.1 1 1883\r\n",
        b"PROXY " + bytes(LINE_BYTES_MAX),
        binary(command=0x11),
        binary(command=0x22),
        binary(addresses=INET[:-1]),
        binary(tlvs=b"\x20\xff\xff"),
        SIGNATURE_V2 + b"\x21\x11\xff\xff",
    ],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyProtocolError):
        _take(ProxyHeaderParser(), data)


def proxied(**settings: object) -> TcpListener:
    return replace(TcpListener(bind=ANY_PORT, proxy_protocol=True), **settings)  # type: ignore[arg-type]  # they are settings by name


async def peername(rig: Rig, first: bytes) -> str:
    """The address under which a client is known that is refused."""
    client = await rig.socket(first=first)
    await client.say(b"no MQTT")
    assert await client.hear_the_end() == b""
    return rig.reports[-1][0] if rig.reports[-1][0] != client.address else "its own"


@cases(
    ("first", "expected"),
    [(LINE, "192.0.2.7:40000"), (binary(), "192.0.2.7:40000"), (b"PROXY UNKNOWN\r\n", "its own")],
)
async def test_a_client_has_the_address_that_the_proxy_tells(first: bytes, expected: str) -> None:
    async with listening(settings=proxied()) as rig:
        assert await peername(rig, first) == expected


async def test_mqtt_may_follow_at_once() -> None:
    async with listening(settings=proxied()) as rig:
        client = await rig.socket(first=LINE + CONNECT)
        assert await client.hear(len(CONNACK)) == CONNACK


async def test_tls_may_follow_at_once(authority: Authority) -> None:
    settings = SslListener(bind=ANY_PORT, proxy_protocol=True, ssl_options=SslOptions(certfile=str(authority.server())))
    async with listening("ssl", settings) as rig:
        await rig.client(tls=authority.context(), first=binary())


async def test_websocket_may_follow_at_once() -> None:
    async with listening("ws", WsListener(bind=ANY_PORT, proxy_protocol=True)) as rig:
        client = await rig.socket(first=LINE + request() + frame(CONNECT))
        assert (await client.hear_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await client.hear(6) == answer(CONNACK)


async def test_the_common_name_that_the_proxy_verified_is_who_the_client_is() -> None:
    class Seen(PeerIdentity):
        def fill_in_common_name(self, peer, common_name):  # type: ignore[no-untyped-def]  # as those of the class
            super().fill_in_common_name(peer, common_name)
            peers.append((peer.common_name, peer.username, peer.clientid))

    peers: list[tuple[str | None, ...]] = []
    async with listening(settings=proxied(), identity=Seen("cn", "disabled")) as rig:
        await rig.client(first=binary(tlvs=tls_tlv(b"meter-7")))
    assert peers == [("meter-7", "meter-7", None)]


async def test_rules_are_about_the_proxy() -> None:
    rules = (parse_access_rule("deny 192.0.2.0/24"),)
    async with listening(settings=proxied(access_rules=rules)) as rig:
        await rig.client(first=LINE)


@cases("first", [b"", LINE[:20], SIGNATURE_V2, b"\r"])
async def test_a_header_that_does_not_come_is_not_waited_for(first: bytes) -> None:
    async with listening(settings=proxied(proxy_protocol_timeout=3.0)) as rig:
        client = await rig.socket(first=first)
        await rig.until("current_connections", 1)
        await rig.advance(2.0)
        assert rig.count("handshake_timeouts") == 0
        await rig.advance(2.0)
        assert await client.hear_the_end() == b""
        assert rig.count("handshake_timeouts") == 1
        assert rig.count("current_connections") == 0


async def test_a_client_without_header_is_closed_and_counted() -> None:
    async with listening(settings=proxied()) as rig:
        client = await rig.socket(first=CONNECT)
        assert await client.hear_the_end() == b""
        assert rig.count("handshake_failures") == 1


async def test_half_headers_count_as_connections() -> None:
    async with listening(settings=proxied(max_connections=1)) as rig:
        await rig.socket(first=LINE[:10])
        await rig.until("current_connections", 1)
        assert await (await rig.socket(first=LINE)).hear_the_end() == b""


async def test_a_proxy_that_hangs_up_is_forgotten() -> None:
    async with listening(settings=proxied()) as rig:
        client = await rig.socket(first=LINE[:10])
        await rig.until("current_connections", 1)
        await client.close()
        await rig.until("current_connections", 0)
