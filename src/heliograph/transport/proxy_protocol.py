"""The PROXY protocol, sans-IO: from the first bytes of a connection to the address behind the proxy.

Versions 1 (a line of text) and 2 (binary) of HAProxy's specification; which one comes, its first bytes tell.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

from heliograph.transport.addresses import address_text

SIGNATURE_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
SIGNATURE_V1: Final = b"PROXY "

LINE_BYTES_MAX: Final = 107  # with its CRLF
_HEADER_BYTES_V2: Final = 16
# A proxy that forwards certificates may need some kilobytes; the 64 KiB that the length could claim, none does.
_REST_BYTES_MAX: Final = 8192

_LOCAL: Final = 0x20
_PROXIED: Final = 0x21
_INET: Final = 0x1
_INET6: Final = 0x2
_UNIX: Final = 0x3
_ADDRESS_BYTES: Final = {_INET: 12, _INET6: 36, _UNIX: 216}
_TLV_SSL: Final = 0x20
_SSL_COMMON_NAME: Final = 0x22
_CLIENT_CERTIFICATE_CONNECTION: Final = 0x02


class ProxyProtocolError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """What a proxy said.

    Attributes:
        source: The client's address as `host:port`; None where the proxy speaks for itself or does not know.
        common_name: The common name of the client's verified certificate, or None.
    """

    source: str | None
    common_name: str | None = None


class ProxyHeaderParser:
    """Reads one header and not a byte behind it; used once."""

    __slots__ = ("_taken", "header")

    def __init__(self) -> None:
        self._taken = b""
        self.header: ProxyHeader | None = None

    def take(self, data: bytes) -> int:
        """Look at the bytes that come next; how many of them belong to the header."""
        both = self._taken + data
        prefix = both[: len(SIGNATURE_V2)]
        if both.startswith(SIGNATURE_V1) or SIGNATURE_V1.startswith(both):
            used = self._take_line(both)
        elif SIGNATURE_V2.startswith(prefix):
            used = self._take_binary(both)
        else:
            raise ProxyProtocolError(f"it begins with {both[:12]!r}")
        count = used - len(self._taken)
        self._taken = b"" if self.header is not None else both[:used]
        return count

    def _take_line(self, data: bytes) -> int:
        end = data.find(b"\r\n", 0, LINE_BYTES_MAX)
        if end < 0:
            if len(data) >= LINE_BYTES_MAX:
                raise ProxyProtocolError(f"its line is longer than {LINE_BYTES_MAX} bytes")
            return len(data)
        self.header = _parse_line(data[:end])
        return end + 2

    def _take_binary(self, data: bytes) -> int:
        if len(data) < _HEADER_BYTES_V2:
            return len(data)
        rest = int.from_bytes(data[14:16], "big")
        if rest > _REST_BYTES_MAX:
            raise ProxyProtocolError(f"its length is {rest} bytes; at most {_REST_BYTES_MAX} are taken")
        end = _HEADER_BYTES_V2 + rest
        if len(data) < end:
            return len(data)
        self.header = _parse_binary(data[12], data[13] >> 4, data[_HEADER_BYTES_V2:end])
        return end


def _parse_line(line: bytes) -> ProxyHeader:
    words = line.decode("latin-1").split(" ")
    if words[1:2] == ["UNKNOWN"]:
        return ProxyHeader(None)
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise ProxyProtocolError(f"its line is {line!r}")
    _, family, source, destination, source_port, destination_port = words
    host = _host(source, family)
    _host(destination, family)
    _port(destination_port)
    return ProxyHeader(address_text((host, _port(source_port))))


def _host(text: str, family: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text) if family == "TCP4" else ipaddress.IPv6Address(text))
    except ValueError:
        raise ProxyProtocolError(f"{text!r} is no address of {family}") from None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535):
        raise ProxyProtocolError(f"{text!r} is no port")
    return int(text)


def _parse_binary(command: int, family: int, rest: bytes) -> ProxyHeader:
    if command == _LOCAL:
        return ProxyHeader(None)
    if command != _PROXIED:
        raise ProxyProtocolError(f"version and command are 0x{command:02x}")
    size = _ADDRESS_BYTES.get(family)
    if size is None:  # unspecified, or one that is not known: the connection is served, the address is the proxy's
        return ProxyHeader(None)
    if len(rest) < size:
        raise ProxyProtocolError(f"it has {len(rest)} bytes for addresses that take {size}")
    return ProxyHeader(_source(family, rest), _common_name(rest[size:]))


def _source(family: int, rest: bytes) -> str:
    if family == _INET:
        return address_text((str(ipaddress.IPv4Address(rest[:4])), int.from_bytes(rest[8:10], "big")))
    if family == _INET6:
        return address_text((str(ipaddress.IPv6Address(rest[:16])), int.from_bytes(rest[32:34], "big")))
    return address_text(rest[:108].rstrip(b"\0").decode("utf-8", "replace"))


def _common_name(tlvs: bytes) -> str | None:
    """The common name in the extension about TLS, if the client's certificate was verified."""
    content = _find(tlvs, _TLV_SSL)
    if content is None or len(content) < 5:
        return None
    if not content[0] & _CLIENT_CERTIFICATE_CONNECTION or any(content[1:5]):
        return None
    name = _find(content[5:], _SSL_COMMON_NAME)
    return None if name is None else name.decode("utf-8", "replace")


def _find(tlvs: bytes, kind: int) -> bytes | None:
    at = 0
    while at + 3 <= len(tlvs):
        end = at + 3 + int.from_bytes(tlvs[at + 1 : at + 3], "big")
        if end > len(tlvs):
            raise ProxyProtocolError("an extension is longer than the header")
        if tlvs[at] == kind:
            return tlvs[at + 3 : end]
        at = end
    return None
