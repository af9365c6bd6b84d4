"""Who is at the other end of a Unix socket, as the kernel says."""

import os
import pwd
import socket
import struct
from dataclasses import dataclass
from typing import Final, Protocol

_CREDENTIALS: Final = struct.Struct("3i")


class AnySocket(Protocol):
    """A socket, or what an event loop shows in its place."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """An option of the socket."""


@dataclass(frozen=True, slots=True)
class SocketPeer:
    """Who is at the other end.

    Attributes:
        user: The user, as `alice (uid 1000)`.
        pid: The number of its process.
        is_ours: Whether it is a process of our own user, which could do anyhow what we can.
    """

    user: str
    pid: int
    is_ours: bool


def peer_of(connection: AnySocket) -> SocketPeer:
    """Who connected."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(packed)
    return SocketPeer(_user(uid), pid, uid == os.getuid())


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
