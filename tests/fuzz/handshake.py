"""Fuzz target: what comes before MQTT on a connection: PROXY protocol headers and WebSocket requests."""

import ipaddress
from typing import Final

from fuzz.source import Source
from heliograph.config.listeners import WebsocketOptions
from heliograph.transport.addresses import host_and_port
from heliograph.transport.proxy_protocol import SIGNATURE_V2, ProxyHeaderParser, ProxyProtocolError
from heliograph.transport.upgrade import END_OF_REQUEST, REQUEST_BYTES_MAX, UpgradePolicy
from support.reach import reachable

_POLICIES: Final = (
    UpgradePolicy(WebsocketOptions()),
    UpgradePolicy(
        WebsocketOptions(
            compress=True,
            proxy_address_header="X-Forwarded-For",
            proxy_port_header="X-Forwarded-Port",
            fail_if_no_subprotocol=False,
        )
    ),
    UpgradePolicy(
        WebsocketOptions(check_origin_enable=True, allow_origin_absence=False, check_origins="https://a.example")
    ),
)
_PEERNAME: Final = "192.0.2.1:50000"
_VALID: Final = (
    ("Host", "localhost"),
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Protocol", "mqtt"),
)
_MORE: Final = (
    ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"),
    ("Sec-WebSocket-Extensions", "permessage-deflate; server_max_window_bits=8; client_no_context_takeover"),
    ("X-Forwarded-For", "2001:db8::1, 10.0.0.1"),
    ("X-Forwarded-For", "::ffff:192.0.2.7"),
    ("X-Forwarded-For", "fe80::1%eth0"),
    ("X-Forwarded-Port", "00000180"),
    ("Origin", "https://a.example"),
    ("Content-Length", "5"),
    ("Transfer-Encoding", "chunked"),
)
_ADDRESSES: Final = ("192.0.2.1", "::1", "2001:db8::1", "::ffff:192.0.2.9", "fe80::1%x", "1.2.3", "")
_PORTS: Final = ("0", "65535", "65536", "-1", "1e3", "", "٣")


def run(data: bytes) -> None:
    """One input: what it is for, how it is cut, then bytes or decisions."""
    source = Source(data)
    what, size = source.byte(), source.pick((0, 1, 2, 7, 30))
    if what & 1:
        stream = source.rest() if what & 2 else _proxy_header(source)
        check_proxy(stream, size)
    else:
        request = source.rest() if what & 2 else _request(source)
        check_request(request, _POLICIES[what >> 2 & 3 if what >> 2 & 3 < 3 else 0])


def check_proxy(stream: bytes, size: int) -> None:
    """A header is the same in any pieces, ends where it ends, and tells of an address."""
    whole = _parsed([stream])
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)] if size else [stream]
    in_pieces = _parsed(pieces)
    assert (whole is None) == (in_pieces is None) or whole is None or in_pieces is None or whole == in_pieces
    if whole is not None and in_pieces is not None:
        assert whole == in_pieces


def _parsed(pieces: list[bytes]) -> tuple[str | None, str | None, int] | None:
    """Address, common name and length of a header; None where there is none, or it is cut off."""
    parser = ProxyHeaderParser()
    used = 0
    for piece in pieces:
        try:
            count = parser.take(piece)
        except ProxyProtocolError:
            return None
        assert 0 < count <= len(piece) or not piece, "the reader would look at the same bytes for ever"
        used += count
        assert max(map(len, reachable(parser, bytes)), default=0) <= 16 + 8192, "a header is gathered beyond its limit"
        header = parser.header
        if header is not None:
            if header.source is not None and not header.source.startswith("unix:"):
                _check_peername(header.source)
            return header.source, header.common_name, used
    return None


def check_request(request: bytes, policy: UpgradePolicy) -> None:
    """Any request gets an HTTP answer, and what it says of an address is one."""
    request = request[: REQUEST_BYTES_MAX - len(END_OF_REQUEST)]
    end = request.find(END_OF_REQUEST)
    request = (request if end < 0 else request[:end]) + END_OF_REQUEST
    upgrade = policy.decide(request, _PEERNAME)
    assert upgrade.answer.startswith(b"HTTP/1.1 101 " if upgrade.is_accepted else b"HTTP/1.1 ")
    assert upgrade.answer.count(END_OF_REQUEST) >= 1
    assert upgrade.is_accepted or upgrade.reason
    if upgrade.peername is not None:
        _check_peername(upgrade.peername)
    assert (upgrade.inflater is None) == (upgrade.deflater is None)


def _check_peername(peername: str) -> None:
    """Bans and rules are by address: each client has one, in its usual form."""
    host, port = host_and_port(peername)
    address = ipaddress.ip_address(host)
    assert str(address) == host, f"{host!r} is {address!s}"
    assert "%" not in host, f"{host!r} has a scope"
    assert getattr(address, "ipv4_mapped", None) is None, f"{host!r} is an IPv4 address in disguise"
    assert str(int(port)) == port, f"{port!r} is no port in its usual form"
    assert int(port) <= 65_535


def _proxy_header(source: Source) -> bytes:
    if source.flag():
        family = source.pick(("TCP4", "TCP6", "UNKNOWN", "UDP4"))
        words = [
            "PROXY",
            family,
            source.pick(_ADDRESSES),
            source.pick(_ADDRESSES),
            source.pick(_PORTS),
            source.pick(_PORTS),
        ]
        separator = "  " if source.rarely() else " "
        return separator.join(words[: 6 if not source.rarely() else source.below(7)]).encode() + b"\r\n" + source.rest()
    command = source.byte() if source.rarely() else source.pick((0x21, 0x21, 0x20))
    kind = source.byte() if source.rarely() else source.pick((0x11, 0x21, 0x31, 0x00))
    content = source.take({1: 12, 2: 36, 3: 216}.get(kind >> 4, 0))
    if source.flag() and kind >> 4 == 2:
        content = ipaddress.IPv6Address("::ffff:192.0.2.3").packed * 2 + b"\0\1\0\2"
    for _ in range(source.below(3)):
        value = source.short()
        if source.flag():
            name = source.short()
            value = b"\x07\0\0\0\0" + bytes((0x22,)) + len(name).to_bytes(2, "big") + name
        content += bytes((source.pick((0x20, 0x01, 0x04)),)) + len(value).to_bytes(2, "big") + value
    length = len(content) if not source.rarely() else source.uint16()
    return SIGNATURE_V2 + bytes((command, kind)) + length.to_bytes(2, "big") + content + source.rest()


def _request(source: Source) -> bytes:
    headers = [header for header in _VALID if not source.rarely()]
    headers += [source.pick(_MORE) for _ in range(source.below(4))]
    if source.rarely():
        headers.append((source.short().decode("latin-1"), source.short().decode("latin-1")))
    start = "GET /mqtt HTTP/1.1"
    if source.rarely():
        start = source.pick(
            ("GET /mqtt HTTP/1.0", "POST /mqtt HTTP/1.1", "GET //mqtt?x HTTP/1.1", "GET", "", "GET /mqtt")
        )
    return "\r\n".join([start, *(f"{name}: {value}" for name, value in headers)]).encode("latin-1") + b"\r\n\r\n"
