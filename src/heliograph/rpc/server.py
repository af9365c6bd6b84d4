"""Answers what is asked on a listening Unix socket."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from heliograph.rpc import codes
from heliograph.rpc.connection import Patience, RpcConnection
from heliograph.rpc.methods import Audit, Method, NoAudit, RpcError
from heliograph.rpc.running import Services
from heliograph.rpc.turns import RequestTurns

_log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 32
_STOP_S: Final = 10.0
_STOPPING: Final = RpcError(codes.STOPPING, "the node stops")


class RpcServer:
    """Answers requests; owned by what opens its socket, in its event loop.

    A connection that breaks the rules, or whose peer does not read, ends; nothing else does. Where all connections are
    taken, the one that has been idle for longest makes room.

    Args:
        place: Where it is asked, for the audit: `control socket`.
        on_fault: Gets a method's name and the fault of the program that it raised.
        overload: Says why only what is vital is answered now; empty where everything is.
    """

    def __init__(
        self,
        methods: Iterable[Method],
        name: str,
        place: str,
        audit: Audit | None = None,
        on_fault: Callable[[str, Exception], object] = lambda method, error: None,
        overload: Callable[[], str] = lambda: "",
        patience: Patience = Patience(),  # noqa: B008 - it is frozen
    ) -> None:
        self.methods: Mapping[str, Method] = {method.name: method for method in methods}
        self.name = name
        self.place = place
        self.patience = patience
        self.overload = overload
        self._turns = RequestTurns(asyncio.get_running_loop())
        self.services = Services(self._turns, audit or NoAudit(), on_fault)
        self._connections: dict[RpcConnection, None] = {}  # in the order in which they came
        self._server: asyncio.Server | None = None
        self._connections_count = self._cut_count = 0

    async def start(self, listening: socket.socket) -> None:
        """The socket is bound; it is closed at the end."""
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: RpcConnection(self), sock=listening)

    async def stop(self) -> None:
        """End all connections and what is in flight, and wait until nothing of it runs."""
        if self._server is not None:
            self._server.close()
        connections = list(self._connections)
        tasks = [task for connection in connections for task in connection.tasks]
        for connection in connections:
            connection.take_no_more()
            connection.give_up(_STOPPING)
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_S)
        for connection in connections:
            connection.end(_STOPPING.code, _STOPPING.message)

    def joined(self, connection: RpcConnection) -> bool:
        """Take a new connection; False if there are too many that have something in flight."""
        if len(self._connections) >= CONNECTIONS_MAX:
            idle = next((one for one in self._connections if one.is_idle), None)
            if idle is None:
                return False
            del self._connections[idle]
            idle.end(codes.IDLE, "another connection needed its place, and it was idle")
        self._connections_count += 1
        self._connections[connection] = None
        return True

    def left(self, connection: RpcConnection, why: str) -> None:
        self._connections.pop(connection, None)
        if why:
            self._cut_count += 1
            _log.info("%s: %r ended: %s", self.place, connection, why)

    def statistics(self) -> dict[str, int]:
        return {"connections": len(self._connections), "accepted": self._connections_count, "cut": self._cut_count}

    def __repr__(self) -> str:
        return f"RpcServer({self.place}, {len(self.methods)} methods, {len(self._connections)} connections)"
