"""A listener: accepts connections within its limits, leads them to their channels, closes them all when it stops.

On the way to a channel lie access rules, PROXY protocol, TLS and WebSocket handshake, as far as a listener has them.
How long a connection may stay on that way, and how many there are, `connections` knows.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Final, cast

from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.config import listeners as config
from heliograph.settings.units import UnixAddress
from heliograph.transport import sockets
from heliograph.transport.acceptor import Acceptor
from heliograph.transport.addresses import address_text, is_one_address, own_address_text, plain_host
from heliograph.transport.binding import change_options, check_options, close_sockets, listening_sockets
from heliograph.transport.certificates import Certificates
from heliograph.transport.connection import Connection
from heliograph.transport.connections import Connections
from heliograph.transport.direct import DirectConnection
from heliograph.transport.limits import AccessRules, ConnectionRate
from heliograph.transport.listener_counters import ListenerCounters
from heliograph.transport.peer_certificate import PeerIdentity
from heliograph.transport.pending_connection import PendingConnection
from heliograph.transport.protocol_transport import ProtocolTransport
from heliograph.transport.sockets import Poller, SocketTransport

if TYPE_CHECKING:
    from heliograph.transport.websocket import WebSocketHandshake

_CERTIFICATE_CHECK_US: Final = 5_000_000
_TLS_GOODBYE_S: Final = 5.0
_TURNS_OF_AN_END: Final = 8  # of the event loop, from a client's last bytes until its connection is forgotten


class Listener:  # [MQTT-4.2-1] 3.1.1 [MQTT-7.1.1-1]
    """One named listener of the node; owned by the node, which starts, ticks and stops it.

    Args:
        kind: `tcp`, `ssl`, `ws` or `wss`.
        name: Its name in the configuration (`default` in `listeners.tcp.default`).
        uses_epoll: Whether sockets without TLS have an `epoll` of their own, where the system has it.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        settings: config.ListenerConfig,
        context: ChannelContext,
        options: ChannelOptions,
        identity: PeerIdentity | None = None,
        *,
        uses_epoll: bool = True,
    ) -> None:
        self.kind = kind
        self.name = name
        self.settings = settings
        self._clock = context.clock
        self._path = f"listeners.{kind}.{name}"
        self._rules = AccessRules(settings.access_rules)
        self._certificates: Certificates | None = None
        if isinstance(settings, config.SslListener | config.WssListener):
            self._certificates = Certificates(self._path, settings.ssl_options)
        self.websocket = _websocket_of(settings)
        self._protocol = Connection if self.websocket is None else _websocket_handshake()
        self._uses_epoll = uses_epoll
        self._sockets: list[socket.socket] = []
        self._acceptor: Acceptor | None = None
        self._poller: Poller | None = None  # where the event loop's own transports are not needed
        self._tasks: set[asyncio.Task[None]] = set()
        self._checked_certificates_us = context.clock()
        self._counters = ListenerCounters(f"{kind}:{name}", context.clock)
        self.connections = Connections(context, options, settings, identity or PeerIdentity(), self._counters)

    @property
    def options(self) -> ChannelOptions:
        return self.connections.options

    @property
    def _tls_handshake_s(self) -> float:
        settings = self.settings
        if isinstance(settings, config.SslListener | config.WssListener):
            return min(settings.ssl_options.handshake_timeout, self.connections.handshake_s)
        return self.connections.handshake_s

    # --- called by the node

    async def start(self) -> None:
        """Open the listening sockets and accept."""
        await self.bind()
        self.begin()

    async def bind(self, beside: Sequence[socket.socket] = ()) -> None:
        """Open the listening sockets, whose connections wait until it begins; `address` is the real one from now on.

        Args:
            beside: Listening sockets that are about to be closed, and may have the same port until then.
        """
        settings = self.settings
        self._sockets = await listening_sockets(self._path, settings.bind, settings.tcp_options, beside)

    def begin(self, taken_over: Sequence[socket.socket] = ()) -> None:
        settings = self.settings
        if taken_over:
            self._sockets = list(taken_over)
            change_options(self._sockets, settings.tcp_options)
        bound_to = [listening.getsockname() for listening in self._sockets]
        if len(bound_to) == 1 and is_one_address(bound_to[0]):
            self.connections.own_address = own_address_text(bound_to[0])
        if self._certificates is None and self._uses_epoll and sockets.is_available():
            context = self.connections.context
            self._poller = Poller(context.begin_turn, context.broker.pressure)
        rate = ConnectionRate(settings.max_conn_rate, self._clock())
        self._acceptor = Acceptor(f"{self.kind}:{self.name}", self._sockets, rate, self._clock, self._accepted)
        self._acceptor.start()

    @property
    def address(self) -> str:
        bind = self.settings.bind
        path = "" if self.websocket is None else self.websocket.mqtt_path
        if isinstance(bind, UnixAddress):
            return f"{self.kind}+{bind}{path and ':' + path}" if self.kind != "tcp" else str(bind)
        host = f"[{bind.host}]" if ":" in bind.host else bind.host
        return f"{self.kind}://{host}:{self.port}{path}"

    @property
    def host(self) -> str | None:
        bind = self.settings.bind
        return None if isinstance(bind, UnixAddress) else bind.host

    @property
    def port(self) -> int:
        """The port, the real one while it listens; 0 for a Unix socket."""
        bind = self.settings.bind
        if isinstance(bind, UnixAddress):
            return 0
        return int(self._sockets[0].getsockname()[1]) if self._sockets else bind.port

    def tick(self, uptime_us: int) -> None:
        self.connections.tick(uptime_us)
        if self._certificates is not None and uptime_us - self._checked_certificates_us >= _CERTIFICATE_CHECK_US:
            self._checked_certificates_us = uptime_us
            self._certificates.reload_if_changed()
        self._counters.tell()

    @property
    def is_listening(self) -> bool:
        return len(self._sockets) > 0

    @property
    def sockets(self) -> Sequence[socket.socket]:
        return self._sockets

    def prepare(
        self, settings: config.ListenerConfig, options: ChannelOptions, identity: PeerIdentity
    ) -> Callable[[], None]:
        """Read the certificates again; what is returned has them and these settings hold for connections from then on.

        Args:
            settings: The present listening sockets serve them, see `serves_both`.

        Raises:
            CertificateError: A certificate cannot be used.
            ListenerError: The system does not take an option of the sockets.
        """
        check_options(self._path, settings.tcp_options)
        use_certificates = None
        if self._certificates is not None and isinstance(settings, config.SslListener | config.WssListener):
            use_certificates = self._certificates.prepare(settings.ssl_options)

        def renew() -> None:
            before, self.settings = self.settings, settings
            self.websocket = _websocket_of(settings)
            self.connections.renew(options, settings, identity)
            self._rules = AccessRules(settings.access_rules)
            if use_certificates is not None:
                use_certificates()
            if before.tcp_options != settings.tcp_options:
                change_options(self._sockets, settings.tcp_options)
            if before.max_conn_rate != settings.max_conn_rate and self._acceptor is not None:
                self._acceptor.limit(ConnectionRate(settings.max_conn_rate, self._clock()))

        return renew

    def release(self) -> Sequence[socket.socket]:
        """Stop accepting; connections go on, those that are not complete are closed.

        Returns:
            What it listened on: the caller's to close, or for another one to take over.
        """
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
        released, self._sockets = self._sockets, []
        self.connections.drop_incomplete()
        return released

    def stop_accepting(self) -> None:
        close_sockets(self.release())

    async def close(self, within_s: float) -> None:
        await self.connections.end(within_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._poller is not None:
            self._poller.close()

    def statistics(self) -> dict[str, int]:
        """How many connections there are, and how many did not become one, and why."""
        numbers = {
            "current_connections": len(self.connections),
            **self._counters.statistics(),
        }
        if self._acceptor is not None:
            numbers.update(self._acceptor.statistics())
        if self._certificates is not None:
            numbers["certificate_expires_at"] = self._certificates.expires_at_s()
        return numbers

    def __repr__(self) -> str:
        return f"Listener({self.kind}:{self.name} at {self.address}, {len(self.connections)} connections)"

    # --- from a socket to a connection

    def _accepted(self, connection: socket.socket, address: object) -> None:
        if not self._rules.decides_nothing:
            host = plain_host(str(address[0])) if isinstance(address, tuple) else ""
            if not self._rules.allow(host):
                self._counters.denied += 1
                connection.close()
                return
        if self._is_full:
            self._do(self._look_again(connection, address))
        else:
            self._take(connection, address)

    @property
    def _is_full(self) -> bool:
        most = self.settings.max_connections
        return most is not None and len(self.connections) >= most

    async def _look_again(self, connection: socket.socket, address: object) -> None:
        """Connections that their clients have closed keep their places until the event loop has read so."""
        try:
            for _ in range(_TURNS_OF_AN_END):
                if self._is_full:
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            connection.close()
            raise
        if self._is_full or not self.is_listening:
            self._counters.refused += 1
            connection.close()
        else:
            self._take(connection, address)

    def _take(self, connection: socket.socket, address: object) -> None:
        pending = PendingConnection(
            connection, address_text(address if isinstance(address, tuple) else connection.getsockname())
        )
        self.connections.pending.add(pending)
        if self.settings.proxy_protocol:
            within_s = min(self.settings.proxy_protocol_timeout, self.connections.handshake_s)
            pending.read_header(self.connections.deadline_us(within_s), self._begin, self._turn_away)
        else:
            self._begin(pending)

    def _begin(self, pending: PendingConnection) -> None:
        # The system's buffer of a Unix socket cannot be waited for; who may open it is the file system's matter.
        if self._certificates is not None and pending.connection.family != socket.AF_UNIX:
            pending.await_hello(self.connections.deadline_us(self._tls_handshake_s), self._join, self._turn_away)
        else:
            self._join(pending)

    def _turn_away(self, pending: PendingConnection, reason: str) -> None:
        self.connections.pending.discard(pending)
        pending.close()
        self._counters.fail(pending.peername, reason)

    def _join(self, pending: PendingConnection) -> None:
        if self._poller is not None:
            try:
                self._poller.connect(self._transport_of(self._poller, pending))
            except OSError as error:
                pending.connection.close()
                self._counters.fail(pending.peername, f"accepting: {error}")
            finally:
                self.connections.pending.discard(pending)
            return
        self._do(self._connect(pending))

    def _do(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, pending: PendingConnection) -> None:
        protocol = self._protocol_of(pending)
        loop = asyncio.get_running_loop()
        certificates = self._certificates
        try:
            if certificates is None:
                await loop.connect_accepted_socket(lambda: protocol, pending.connection)
            else:
                await loop.connect_accepted_socket(
                    lambda: protocol,
                    pending.connection,
                    ssl=certificates.context,
                    ssl_handshake_timeout=self._tls_handshake_s,
                    ssl_shutdown_timeout=_TLS_GOODBYE_S,
                )
        except (TimeoutError, ConnectionAbortedError):  # the second is what the event loop calls a slow handshake
            self._counters.time_out(pending.peername, "TLS handshake")
        except OSError as error:
            if certificates is None:
                pending.connection.close()
            self._counters.fail(pending.peername, f"{'TLS' if certificates is not None else 'accepting'}: {error}")
        finally:
            self.connections.pending.discard(pending)

    def _transport_of(self, poller: Poller, pending: PendingConnection) -> SocketTransport:
        if self.websocket is None:
            return DirectConnection(poller, self.connections, pending)
        return ProtocolTransport(poller, pending.connection, self._protocol_of(pending))

    def _protocol_of(self, pending: PendingConnection) -> asyncio.Protocol:
        return cast("asyncio.Protocol", self._protocol(self.connections, pending))  # one by its methods


def _websocket_of(settings: config.ListenerConfig) -> config.WebsocketOptions | None:
    return settings.websocket if isinstance(settings, config.WsListener | config.WssListener) else None


def _websocket_handshake() -> type["WebSocketHandshake"]:
    from heliograph.transport.websocket import WebSocketHandshake  # with `websockets`; other listeners do not need it

    return WebSocketHandshake
