"""Addresses of sockets as text: `192.0.2.1:1883`, `[2001:db8::1]:1883`, `unix:/run/mqtt.sock`."""

import ipaddress
from functools import lru_cache
from typing import Final

_MAPPED: Final = "::ffff:"  # how IPv4 peers look on a socket for both


def address_text(address: object) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        host, port = str(address[0]), address[1]
        if ":" not in host:
            return f"{host}:{port}"
        host = plain_host(host)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"unix:{address}" if isinstance(address, str) else "unix:"


@lru_cache(maxsize=64)
def own_address_text(address: tuple[object, ...] | str) -> str:
    """The text of an address of ours: nearly all connections of a listener have the same, and share it."""
    return address_text(address)


def is_one_address(bound_to: object) -> bool:
    """Whether connections to a listening socket that is bound to this all have that as their own address."""
    return isinstance(bound_to, tuple) and bound_to[0] not in ("0.0.0.0", "::")


def plain_host(host: str) -> str:
    """A host without scope, and an IPv4 address that came over IPv6 as itself."""
    host = host.partition("%")[0]
    if host.startswith(_MAPPED):  # `::ffff:192.0.2.1` or `::ffff:c000:201`: a ban must find it as 192.0.2.1
        mapped = ipaddress.IPv6Address(host).ipv4_mapped
        return host if mapped is None else str(mapped)
    return host


def host_and_port(text: str) -> tuple[str, str]:
    """The parts of `host:port` and `[host]:port`; a text of another form is all host."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        return text, ""
    return host.removeprefix("[").removesuffix("]"), port
