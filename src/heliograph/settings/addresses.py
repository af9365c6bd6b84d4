"""Kinds of settings for the addresses of servers of others."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from heliograph.hocon.values import Content
from heliograph.settings.kinds import Kind, RefusedError
from heliograph.settings.units import Address

_PORT_MAX: Final = 65_535
_PORTS: Final = {"http": 80, "https": 443}


def url_address(url: str) -> tuple[str, int]:
    """Host and port of a URL of HTTP."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


class ServerAddress(Kind[Address]):
    """Where a server is; without a `port` of the setting, the text must have one."""

    is_word = True
    is_place = True

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self.needs_port = not port
        self.expected = f"host:port, or a host for port {port}" if port else "host:port"

    def convert(self, value: Content) -> Address:
        """Host and port."""
        if not isinstance(value, str):
            raise RefusedError
        has_port = ":" in value.rpartition("]")[2] or not self._port
        host, _, port = (value if has_port else f"{value}:{self._port}").rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= _PORT_MAX:
            raise RefusedError
        return Address(host.removeprefix("[").removesuffix("]"), int(port))


class ServerAddresses(Kind[tuple[str, ...]]):
    """Where several servers are; the program gets their texts, of which the port may be missing."""

    expected = "a list of host:port or hosts, or a text with commas between"
    is_place = True

    def convert(self, value: Content) -> tuple[str, ...]:
        """Also one text."""
        parts: list[Content] = list(value.split(",")) if isinstance(value, str) else []
        parts = [item.value for item in value] if isinstance(value, list) else parts
        addresses = [str(part).strip() for part in parts]
        for address in addresses:
            ServerAddress(1).convert(address)
        if not parts:
            raise RefusedError
        return tuple(addresses)
