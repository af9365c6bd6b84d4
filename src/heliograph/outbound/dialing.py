"""Resolves names, checks each address, and connects to one that is allowed.

A name is resolved once for a connection, and what is connected to is an address of that answer. So a name whose
answers change (DNS rebinding) leads nowhere that the policy denies. TLS still verifies the name.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heliograph.settings.outbound import OutboundConfig, OutboundPolicy

_log = logging.getLogger(__name__)

_FAMILIES: Final = ((socket.AF_INET, ""), (socket.AF_INET6, ":"))


class OutboundDeniedError(OSError):
    """A connection that the settings `outbound` deny; the text names setting, host, address and rule."""


@dataclass(frozen=True, slots=True)
class SocketAddress:
    """One address of a server, as sockets take it."""

    family: int
    sockaddr: tuple[Any, ...]

    @property
    def host(self) -> str:
        """The IP address, with its scope where it has one."""
        scope = self.sockaddr[3] if len(self.sockaddr) > 3 else 0
        return f"{self.sockaddr[0]}%{scope}" if scope and "%" not in self.sockaddr[0] else str(self.sockaddr[0])

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self.sockaddr[1])


Resolver = Callable[[str, int], list[SocketAddress]]


def system_resolver(host: str, port: int) -> list[SocketAddress]:
    """The addresses that the system knows of a host; blocks. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [SocketAddress(family, sockaddr) for family, _, _, _, sockaddr in found]


class Outbound:
    """What a process may connect to at the moment. Owned by the node, the management process, or one that is short.

    Args:
        resolver: Gives the addresses of a host and port; may block. Called in a thread where an event loop waits.
        tell: Called with each denial, for the log.
    """

    def __init__(
        self,
        config: OutboundConfig | None = None,
        resolver: Resolver = system_resolver,
        tell: Callable[[str], object] = _log.warning,
    ) -> None:
        self.config = config or OutboundConfig()
        self.denied_count = 0
        self._policy = OutboundPolicy(self.config)
        self.resolver = resolver
        self._tell = tell

    def use(self, config: OutboundConfig) -> None:
        """Use other settings, from the next connection on."""
        self.config, self._policy = config, OutboundPolicy(config)

    def dialer(self, setting: str) -> "Dialer":
        """What opens the connections of a setting.

        Args:
            setting: Its path, for people, such as `alarm.webhook`.
        """
        return Dialer(setting, self)

    def resolved(self, host: str, port: int) -> list[SocketAddress]:
        """All addresses of a host. Raises `OSError`."""
        try:
            return self.resolver(host, port)
        except UnicodeError:  # of a label that is empty or too long
            raise _no_name(host) from None

    async def resolve(self, host: str, port: int) -> list[SocketAddress]:
        """As `resolved`, for an event loop."""
        if self.resolver is not system_resolver:
            return await asyncio.to_thread(self.resolved, host, port)
        try:  # by the loop's own threads, which costs half as much
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise _no_name(host) from None
        return [SocketAddress(family, sockaddr) for family, _, _, _, sockaddr in found]

    def allowed(self, setting: str, host: str, found: Sequence[SocketAddress]) -> list[SocketAddress]:
        """Those addresses of a host that may be connected to, one at least.

        Raises:
            OutboundDeniedError: None of them may be.
        """
        denied: list[str] = []
        allowed = []
        for one in found:
            fault = self._policy.fault(host, one.host, one.port)
            if fault:
                denied.append(f"{setting}: {host[:200]!r} ({one.host}) is {fault}")
            else:
                allowed.append(one)
        if denied and not allowed:
            self.denied_count += 1
            self._tell(f"no connection: {denied[0]}")
            raise OutboundDeniedError(denied[0])
        if not allowed:
            raise OSError(f"{host[:200]!r} has no address")
        return allowed

    def __repr__(self) -> str:
        return f"Outbound({self.config})"


@dataclass(frozen=True, slots=True)
class Dialer:
    """Opens the connections of one setting. All methods raise `OSError`; `OutboundDeniedError` is one."""

    setting: str
    outbound: Outbound

    def addresses(self, host: str, port: int) -> list[SocketAddress]:
        """The addresses of a server that may be connected to; blocks while it resolves the name."""
        found = _literal(host, port) or self.outbound.resolved(host, port)
        return self.outbound.allowed(self.setting, host, found)

    async def resolve(self, host: str, port: int) -> list[SocketAddress]:
        """As `addresses`, for an event loop."""
        found = _literal(host, port) or await self.outbound.resolve(host, port)
        return self.outbound.allowed(self.setting, host, found)

    def connect(self, host: str, port: int, timeout_s: float | None) -> socket.socket:
        """A connected socket, whose timeout is that of each try."""
        problem: OSError | None = None
        for address in self.addresses(host, port):
            connecting = socket.socket(address.family, socket.SOCK_STREAM)
            try:
                connecting.settimeout(timeout_s)
                connecting.connect(address.sockaddr)
            except OSError as error:
                connecting.close()
                problem = error
            else:
                return connecting
        assert problem is not None  # there is one address at least
        raise problem

    async def open_connection(
        self, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Streams over a connection; with TLS, the certificate is that of `host`."""
        problem: OSError | None = None
        for address in await self.resolve(host, port):
            try:
                return await asyncio.open_connection(
                    address.host, port, ssl=tls, server_hostname=host if tls is not None else None
                )
            except OSError as error:
                problem = error
        assert problem is not None
        raise problem


def _no_name(host: str) -> OSError:
    return OSError(f"{host[:200]!r} is not a name that can be resolved")


def denial_in(error: BaseException | None) -> OutboundDeniedError | None:
    """The denial that an error of a library comes from; None if it comes from something else."""
    while error is not None:
        if isinstance(error, OutboundDeniedError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _literal(host: str, port: int) -> list[SocketAddress]:
    """The address that a host is; none of a name. It saves a thread."""
    for family, mark in _FAMILIES:
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return [SocketAddress(family, (host, port, 0, 0) if mark else (host, port))]
    return []
