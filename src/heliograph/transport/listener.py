"""A TCP listener: accepts connections up to its limit and closes them all when it stops."""

import asyncio
import errno
import logging
from typing import ClassVar, cast

from heliograph.channel.context import ChannelContext
from heliograph.transport.connection import Connection

_log = logging.getLogger(__name__)


class ListenerError(Exception):
    """A listener cannot be opened; the message says which, why, and which setting to change."""

    code: ClassVar[str] = "listener_bind"


class TcpListener:
    """One named listener of the node; owned by the node, which starts and stops it.

    Args:
        name: Its name in the configuration (`default` in `listeners.tcp.default`).
        host: The address that it binds to; empty for every interface.
        port: The port; 0 for any free one.
        connections_max: How many connections it serves at once, None for no limit.
        high_watermark_bytes: Unsent bytes of one connection beyond which its sessions stop sending.
    """

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        context: ChannelContext,
        *,
        connections_max: int | None = None,
        backlog: int = 1024,
        high_watermark_bytes: int = 1_048_576,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self._context = context
        self._connections_max = connections_max
        self._backlog = backlog
        self._high_watermark = high_watermark_bytes
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._refused_count = 0
        self._all_gone = asyncio.Event()

    async def start(self) -> None:
        """Open the listening socket; `port` is the real one from now on.

        Raises:
            ListenerError: The address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._accept, self.host or None, self.port, backlog=self._backlog, reuse_address=True
            )
        except OSError as error:
            raise ListenerError(self._why_not(error)) from error
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        """The address that clients connect to, as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host or "0.0.0.0"
        return f"tcp://{host}:{self.port}"

    async def stop_accepting(self) -> None:
        """Close the listening socket; connections go on."""
        if self._server is not None:
            self._server.close()

    async def close(self, within_s: float) -> None:
        """Wait until every connection is gone; those that are not within `within_s` are cut."""
        if self._connections:
            self._all_gone.clear()
            try:
                await asyncio.wait_for(self._all_gone.wait(), within_s)
            except TimeoutError:
                for connection in list(self._connections):
                    connection.abort()

    def statistics(self) -> dict[str, int]:
        """How many connections there are and how many were refused over the limit."""
        return {"current_connections": len(self._connections), "refused_connections": self._refused_count}

    def __repr__(self) -> str:
        return f"TcpListener({self.name!r} at {self.address}, {len(self._connections)} connections)"

    def _accept(self) -> asyncio.Protocol:
        if self._connections_max is not None and len(self._connections) >= self._connections_max:
            self._refused_count += 1
            _log.warning(
                "listener tcp:%s refused a connection: max_connections is %d", self.name, self._connections_max
            )
            return _Refusal()
        connection = Connection(self._context, self._high_watermark, self._forget)
        self._connections.add(connection)
        return cast("asyncio.Protocol", connection)  # one by its methods

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._all_gone.set()

    def _why_not(self, error: OSError) -> str:
        setting = f"listeners.tcp.{self.name}.bind"
        where = f"{self.host or '*'}:{self.port}"
        if error.errno == errno.EADDRINUSE:
            why = "another program listens there"
        elif error.errno == errno.EACCES:
            why = "this user may not open that port"
        else:
            why = error.strerror or str(error)
        variable = "HELIOGRAPH_" + setting.upper().replace(".", "__")
        return (
            f"listener tcp:{self.name} cannot bind {where}: {why}. "
            f"Choose another address with {setting} in the configuration or with {variable}=127.0.0.1:2883"
        )


class _Refusal(asyncio.Protocol):
    """A connection over the listener's limit: closed as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
