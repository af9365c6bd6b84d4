"""Listening sockets: from the address in the configuration to sockets that are bound, with their options set."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from heliograph.config.listeners import ListenerConfig, TcpOptions
from heliograph.config.loading import environment_name
from heliograph.settings.units import Address, UnixAddress
from heliograph.transport.errors import ListenerError


async def listening_sockets(
    path: str, bind: Address | UnixAddress, options: TcpOptions, beside: Sequence[socket.socket] = ()
) -> list[socket.socket]:
    """Open what a listener listens on.

    Accepted sockets have the options of the listening one, so they are set here, once.

    Args:
        beside: Listening sockets that are about to be closed, and may have the same port until then.
    """
    opened: list[socket.socket] = []
    try:
        if isinstance(bind, UnixAddress):
            opened.append(_unix_socket(bind.path, options))
        else:
            with _sharing_ports(beside):
                await _tcp_sockets(bind, options, opened, shares=len(beside) > 0)
    except OSError as error:
        for each in opened:
            each.close()
        raise ListenerError(_why_not(path, bind, error)) from error
    return opened


def serves_both(before: ListenerConfig, after: ListenerConfig) -> bool:
    """Whether what listens for one setting of a listener serves another: its address is the same, and its buffers."""
    one, other = before.tcp_options, after.tcp_options
    has_buffers = not isinstance(before.bind, UnixAddress)
    return before.bind == after.bind and not (
        has_buffers and (one.sndbuf, one.recbuf) != (other.sndbuf, other.recbuf)  # nothing makes them smaller again
    )


def change_options(listening: Sequence[socket.socket], options: TcpOptions) -> None:
    """Set the options of connections that are accepted from now on, which `check_options` has found good."""
    for one in listening:
        if one.family != socket.AF_UNIX:
            _set_options(one, options)
        one.listen(options.backlog)


def check_options(path: str, options: TcpOptions) -> None:
    """See whether the system takes options."""
    with socket.socket() as probe:
        try:
            _set_options(probe, options)
        except OSError as error:
            raise ListenerError(f"{path}.tcp_options cannot be used: {error.strerror or error}") from error


@contextmanager
def _sharing_ports(listening: Sequence[socket.socket]) -> Iterator[None]:
    """Let others bind the ports of sockets; before and after that they may not."""
    for one in listening:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        yield
    finally:
        for one in listening:
            if one.fileno() >= 0:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)


async def _tcp_sockets(bind: Address, options: TcpOptions, opened: list[socket.socket], *, shares: bool) -> None:
    found = await asyncio.get_running_loop().getaddrinfo(
        bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    port = bind.port
    for family, kind, protocol, _, address in dict.fromkeys(found):
        listening = socket.socket(family, kind, protocol)
        opened.append(listening)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # `::` is every interface; any other address is that address and nothing else.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        _set_options(listening, options)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shares)
        # A name with several addresses gets the same port on each, also where the system chooses it.
        listening.bind((address[0], port, *address[2:]))
        port = listening.getsockname()[1]
        listening.setblocking(False)
        listening.listen(options.backlog)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)


def _set_options(listening: socket.socket, options: TcpOptions) -> None:
    if options.sndbuf is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.sndbuf)
    if options.recbuf is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.recbuf)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, options.nodelay)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, options.keepalive != "none")
    if options.keepalive != "none":
        idle, interval, probes = map(int, options.keepalive.split(","))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)


def _unix_socket(path: str, options: TcpOptions) -> socket.socket:
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        listening.setblocking(False)
        listening.listen(options.backlog)
    except OSError:
        listening.close()
        raise
    return listening


def _remove_stale(path: str) -> None:
    """Remove the socket of a process that is gone; one that a process listens on stays, and so does any other file."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)


def close_sockets(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        path = each.getsockname() if each.family == socket.AF_UNIX else None
        each.close()
        if isinstance(path, str) and path:
            Path(path).unlink(missing_ok=True)


def _why_not(path: str, bind: Address | UnixAddress, error: OSError) -> str:
    _, kind, name = path.split(".", 2)
    setting = f"{path}.bind"
    if error.errno == errno.EADDRINUSE:
        is_file = isinstance(bind, UnixAddress) and not Path(bind.path).is_socket()
        why = "a file is there that is no socket" if is_file else "another program listens there"
    elif error.errno == errno.EACCES:
        why = "this user may not open it" if isinstance(bind, UnixAddress) else "this user may not open that port"
    elif error.errno == errno.EADDRNOTAVAIL:
        why = "this machine has no such address"
    else:
        why = error.strerror or str(error)
    return (
        f"listener {kind}:{name} cannot bind {bind}: {why}. "
        f"Choose another address with {setting} in the configuration or with {environment_name(setting)}=127.0.0.1:2883"
    )
