"""Which TCP sockets listen on this machine, and of which user each is, as Linux tells.

A stream that reads asks for them before each request. To make `/proc/net/tcp` the kernel goes through its whole table
of connections, which takes some milliseconds; for sock_diag(7) it goes through the sockets that listen only. The file
is read where sock_diag is refused, as in some sandboxes.
"""

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = 10  # TCP_LISTEN

_KERNEL: Final = 0  # the sender of its answers; root may send to this socket, too
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST_DUMP: Final = 0x301
_NLMSG_DONE: Final = 3
_HEAD: Final = struct.Struct("=IHHII")  # nlmsghdr
_WANTED: Final = struct.Struct("=BBBxI48x")  # inet_diag_req_v2: family, protocol, no extensions, states, any socket
_PORT: Final = struct.Struct("!H")  # these are where inet_diag_msg, which begins with the family, has them
_PORT_AT: Final = 4
_ADDRESS_AT: Final = 8
_USER: Final = struct.Struct("=I")
_USER_AT: Final = 64
_ANSWER_BYTES_MAX: Final = 1 << 18  # more than the kernel puts into one
_WAIT_S: Final = 5.0  # the kernel answers at once


class ListeningSocket(NamedTuple):
    """One socket that listens.

    Attributes:
        host: Its address; one of IPv4 also where a socket of IPv6 has it.
    """

    host: IPAddress
    port: int
    user: int


def listening_sockets() -> list[ListeningSocket]:
    """All TCP sockets that listen on this machine."""
    try:
        return asked_of_kernel()
    except OSError:
        return read_from_tables(_TABLES)


def asked_of_kernel() -> list[ListeningSocket]:
    """All TCP sockets that listen on this machine, by sock_diag; `OSError` where the system refuses it."""
    if sys.platform != "linux":
        raise OSError("sock_diag is Linux's")
    found: list[ListeningSocket] = []
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_WAIT_S)
        for family in (socket.AF_INET, socket.AF_INET6):
            wanted = _WANTED.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTENS)
            size = _HEAD.size + len(wanted)
            kernel.send(_HEAD.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 0, 0) + wanted)
            is_over = False
            while not is_over:
                answer, _, flags, (sender, _) = kernel.recvmsg(_ANSWER_BYTES_MAX)
                if sender != _KERNEL:
                    continue
                if flags & socket.MSG_TRUNC:
                    raise OSError("an answer of sock_diag is cut off")
                is_over = _take(answer, found)
    return found


def _take(answer: bytes, found: list[ListeningSocket]) -> bool:
    """Take the sockets of one answer; whether it was the last."""
    at = 0
    while at < len(answer):
        size, kind, *_ = _HEAD.unpack_from(answer, at)
        if kind == _NLMSG_DONE:
            return True
        if kind != _SOCK_DIAG_BY_FAMILY:
            raise OSError("sock_diag does not tell")
        found.append(_socket_of(answer[at + _HEAD.size : at + size]))
        at += (size + 3) & ~3
    return False


def _socket_of(entry: bytes) -> ListeningSocket:
    (port,) = _PORT.unpack_from(entry, _PORT_AT)
    length = 4 if entry[0] == socket.AF_INET else 16
    (user,) = _USER.unpack_from(entry, _USER_AT)
    return ListeningSocket(_address(entry[_ADDRESS_AT : _ADDRESS_AT + length]), port, user)


def read_from_tables(tables: tuple[Path, ...]) -> list[ListeningSocket]:
    """All TCP sockets that listen on this machine, by files such as `/proc/net/tcp`."""
    # A system without IPv6 has no table of it.
    return [found for table in tables if table.exists() for found in _listed(table.read_text())]


def _listed(table: str) -> Iterator[ListeningSocket]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        host, _, port = fields[1].partition(":")
        if int(fields[3], 16) == _LISTENS:
            # Words of 32 bits in the machine's order of bytes.
            words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
            address = _address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
            yield ListeningSocket(address, int(port, 16), int(fields[7]))


def _address(packed: bytes) -> IPAddress:
    found = ipaddress.ip_address(packed)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
