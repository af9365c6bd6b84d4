"""Ports of the loopback for servers that a test starts, ends and starts again."""

import os
import socket
import weakref


def held_port(owner: object) -> int:
    """A free port that the system gives to nobody else while an object lives, also while no server listens there.

    A server that ended leaves its port to the system, which may give it to another process before it starts again.
    So a socket here is bound to the port and never listens: that leaves it to servers that reuse addresses, as most do.

    Args:
        owner: Who has the port until its end.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        weakref.finalize(owner, os.close, holder.detach())
    return port
