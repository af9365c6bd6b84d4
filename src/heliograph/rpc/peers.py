"""Who is at the other end of a Unix socket, as the kernel says."""

import pwd
import socket
import struct
from typing import Final, Protocol

_CREDENTIALS: Final = struct.Struct("3i")


class AnySocket(Protocol):
    """A socket, or what an event loop shows in its place."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """An option of the socket."""


def peer_of(connection: AnySocket) -> tuple[str, int]:
    """Who connected, as `alice (uid 1000)`, and the number of the process."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(packed)
    return _user(uid), pid


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
