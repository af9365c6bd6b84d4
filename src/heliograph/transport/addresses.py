"""Addresses of sockets as text: `192.0.2.1:1883`, `[2001:db8::1]:1883`, `unix:/run/mqtt.sock`."""

from typing import Final

_MAPPED: Final = "::ffff:"  # how IPv4 peers look on a socket for both


def address_text(address: object) -> str:
    """What the `socket` module calls an address, as text."""
    if isinstance(address, tuple) and len(address) >= 2:
        host, port = plain_host(str(address[0])), address[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"unix:{address}" if isinstance(address, str) else "unix:"


def plain_host(host: str) -> str:
    """A host without scope, and an IPv4 address that came over IPv6 as itself."""
    host = host.partition("%")[0]
    return host.removeprefix(_MAPPED) if host.startswith(_MAPPED) and "." in host else host


def host_and_port(text: str) -> tuple[str, str]:
    """The parts of `host:port` and `[host]:port`; a text of another form is all host."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        return text, ""
    return host.removeprefix("[").removesuffix("]"), port
