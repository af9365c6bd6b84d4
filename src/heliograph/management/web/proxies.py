"""The address of a caller behind proxies that are trusted: as they say it, and never as the caller says it.

Each proxy adds the address that it was called from at the end of the header. So the entries are read from the end:
those of trusted proxies are passed over, and the first other one is the caller. What stands before it came from that
caller, which may write there whatever it likes. Only one header is read: a proxy that adds to one passes the other on
as the caller has sent it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from heliograph.config.management import DashboardConfig
from heliograph.management.web.addresses import Address, address_in

_HOPS_MAX: Final = 32
_FOR: Final = "for="


class TrustedProxies:
    """Gives requests that a trusted proxy passed on the address of their caller, for all that stands behind it.

    Args:
        app: What is called.
        settings: Those that hold now.
    """

    def __init__(self, app: ASGIApp, settings: Callable[[], DashboardConfig]) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._settings()
        if settings.trusted_proxies and scope["type"] == "http" and scope.get("client"):
            host, port = scope["client"]
            address = caller_of(host, scope["headers"], settings)
            scope["client"] = (address, port if address == host else 0)
        await self._app(scope, receive, send)


def caller_of(peer: str, headers: list[tuple[bytes, bytes]], settings: DashboardConfig) -> str:
    """The address of a caller; that of the last trusted proxy, where this does not say one.

    Args:
        peer: Who has sent the request to this process.
        headers: Of the request, names in lower case.
    """
    trusted = _networks(settings.trusted_proxies)
    found = address_in(peer)
    if found is None or not _is_among(found, trusted):
        return peer
    name = settings.proxy_address_header.lower().encode()
    values = [value.decode("latin-1") for header, value in headers if header == name]
    for entry in _from_the_end(",".join(values), is_forwarded=name == b"forwarded"):
        address = address_in(_without_port(entry))
        if address is None:  # `unknown`, or a name that hides it
            break
        found = address
        if not _is_among(address, trusted):
            break
    return str(found)


def _from_the_end(value: str, *, is_forwarded: bool) -> Iterator[str]:
    """The entries of a header, the last one first.

    Text between quotes may hold a comma, but an address does not: so what the caller left open ends at the next one.
    """
    for entry in reversed(value.rsplit(",", _HOPS_MAX)):
        text = entry.strip()
        if is_forwarded:
            pairs = (pair.strip() for pair in text.split(";"))
            text = next((pair[len(_FOR) :] for pair in pairs if pair.lower().startswith(_FOR)), "").strip('"')
        yield text


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, colon, _ = text.partition(":")
    return host if colon and text.count(":") == 1 else text


def _is_among(address: Address, networks: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    return any(address in network for network in networks)


@lru_cache(maxsize=4)
def _networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(text) for text in texts)
