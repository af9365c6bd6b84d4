"""A listener: accepts connections within its limits, leads them to their channels, closes them all when it stops.

On the way to a channel lie access rules, PROXY protocol, TLS and WebSocket handshake, as far as a listener has them.
The listener limits how long a connection may stay on that way, and counts all as connections.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from heliograph.broker.faults import CONNECTIONS
from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.config import listeners as config
from heliograph.settings.units import UnixAddress
from heliograph.transport import sockets
from heliograph.transport.acceptor import Acceptor
from heliograph.transport.addresses import address_text, is_one_address, own_address_text, plain_host
from heliograph.transport.admission import AccessRules, ConnectionRate
from heliograph.transport.binding import close_sockets, listening_sockets
from heliograph.transport.certificates import Certificates
from heliograph.transport.connection import Connection
from heliograph.transport.direct import DirectConnection
from heliograph.transport.link import Link, UpgradingLink
from heliograph.transport.listener_counters import ListenerCounters
from heliograph.transport.peer_certificate import PeerIdentity
from heliograph.transport.pending_connection import PendingConnection
from heliograph.transport.sockets import Poller, ProtocolTransport, SocketTransport
from heliograph.transport.upgrade import UpgradePolicy
from heliograph.transport.websocket import WebSocketConnection, WebSocketHandshake

_CERTIFICATE_CHECK_US: Final = 5_000_000
_SILENCE_CHECKS_MAX: Final = 8  # checks for silence in one idle timeout
_SILENCE_CHECK_S_MIN: Final = 0.5  # ticks come no faster
_TLS_GOODBYE_S: Final = 5.0
_FOR_EVER_S: Final = 1e9

LIVE: Final = (
    *("max_connections", "access_rules", "zone", "mountpoint", "enable_authn"),
    *("messages_rate", "messages_burst", "bytes_rate", "bytes_burst"),
)
"""The settings of a listener that may change while it listens, for the connections that come then."""


class Listener:  # [MQTT-4.2-1] 3.1.1 [MQTT-7.1.1-1]
    """One named listener of the node; owned by the node, which starts, ticks and stops it.

    Args:
        kind: `tcp`, `ssl`, `ws` or `wss`.
        name: Its name in the configuration (`default` in `listeners.tcp.default`).
        settings: What the configuration says of it.
        context: What the channels of the node share.
        options: What its channels are given.
        identity: Which part of a client's certificate says who the client is.

    Raises:
        CertificateError: A certificate cannot be used.

    Attributes:
        context: What the channels of the node share.
        options: What its channels are given.
        high_watermark: Unsent bytes of one connection beyond which its session holds back.
        upgrades: How WebSocket requests are answered.
        message_bytes_max: Bytes of the largest WebSocket message; 0 for no limit.
        is_single: Whether each MQTT packet is a WebSocket message of its own.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        settings: config.ListenerConfig,
        context: ChannelContext,
        options: ChannelOptions,
        identity: PeerIdentity | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.context = context
        self.options = options
        self.high_watermark = settings.tcp_options.high_watermark
        self._settings = settings
        self._path = f"listeners.{kind}.{name}"
        self._identity = identity or PeerIdentity()
        self._rules = AccessRules(settings.access_rules)
        self._certificates: Certificates | None = None
        if isinstance(settings, config.SslListener | config.WssListener):
            self._certificates = Certificates(self._path, settings.ssl_options)
        websocket = settings.websocket if isinstance(settings, config.WsListener | config.WssListener) else None
        self.websocket = websocket
        self.upgrades = UpgradePolicy(websocket or config.WebsocketOptions())
        self.message_bytes_max = 0 if websocket is None else websocket.max_frame_size or 0
        self.is_single = websocket is not None and websocket.mqtt_piggyback == "single"
        self._send_timeout_us = int((settings.tcp_options.send_timeout or 0) * 1e6)
        self._sockets: list[socket.socket] = []
        self._own_address = ""  # what connections come to; empty where that is asked for each
        self._acceptor: Acceptor | None = None
        self._poller: Poller | None = None  # where the event loop's own transports are not needed
        self._pending: set[PendingConnection] = set()
        self._links: set[Link] = set()
        self._requests: dict[UpgradingLink, int] = {}  # until when they may take
        self._congested: dict[Link, int] = {}  # since when
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_gone = asyncio.Event()
        self._checked_certificates_us = context.clock()
        self._checked_silence_us = self._checked_certificates_us
        self._counters = ListenerCounters(f"{kind}:{name}", context.clock)

    @property
    def _handshake_s(self) -> float:
        """How long a connection may take until its CONNECT is due."""
        return float(self.options.idle_timeout_us) / 1e6 or _FOR_EVER_S

    @property
    def _tls_handshake_s(self) -> float:
        settings = self._settings
        if isinstance(settings, config.SslListener | config.WssListener):
            return min(settings.ssl_options.handshake_timeout, self._handshake_s)
        return self._handshake_s

    # --- called by the node

    async def start(self) -> None:
        """Open the listening sockets; `address` is the real one from now on.

        Raises:
            ListenerError: An address cannot be bound.
        """
        settings = self._settings
        self._sockets = await listening_sockets(self._path, settings.bind, settings.tcp_options)
        bound_to = [listening.getsockname() for listening in self._sockets]
        if len(bound_to) == 1 and is_one_address(bound_to[0]):
            self._own_address = own_address_text(bound_to[0])
        if self._certificates is None and sockets.is_available():
            self._poller = Poller(self.context.begin_turn)
        rate = ConnectionRate(settings.max_conn_rate, self.context.clock())
        self._acceptor = Acceptor(f"{self.kind}:{self.name}", self._sockets, rate, self.context.clock, self._accepted)
        self._acceptor.start()

    @property
    def address(self) -> str:
        """The address that clients connect to, as a URL."""
        bind = self._settings.bind
        path = "" if self.websocket is None else self.websocket.mqtt_path
        if isinstance(bind, UnixAddress):
            return f"{self.kind}+{bind}{path and ':' + path}" if self.kind != "tcp" else str(bind)
        host = f"[{bind.host}]" if ":" in bind.host else bind.host
        return f"{self.kind}://{host}:{self.port}{path}"

    @property
    def host(self) -> str | None:
        """The address or name that it is bound to; None for a Unix socket."""
        bind = self._settings.bind
        return None if isinstance(bind, UnixAddress) else bind.host

    @property
    def demands_certificates(self) -> bool:
        """Whether clients without a certificate are refused."""
        settings = self._settings
        return (
            isinstance(settings, config.SslListener | config.WssListener) and settings.ssl_options.fail_if_no_peer_cert
        )

    @property
    def port(self) -> int:
        """The port, the real one while it listens; 0 for a Unix socket."""
        bind = self._settings.bind
        if isinstance(bind, UnixAddress):
            return 0
        return int(self._sockets[0].getsockname()[1]) if self._sockets else bind.port

    def tick(self, uptime_us: int) -> None:
        """Time has passed: end what takes too long, look at the certificates' files."""
        run = self.context.broker.faults.run  # one that raises keeps the others from nothing
        for pending in [each for each in self._pending if 0 < each.deadline_us < uptime_us]:
            self._pending.discard(pending)
            run(CONNECTIONS, pending.close)
            self._counters.time_out(pending.peername, "TLS or PROXY handshake")
        for handshake in [each for each, deadline_us in self._requests.items() if deadline_us < uptime_us]:
            run(CONNECTIONS, handshake.abort)
            self._counters.time_out(handshake.peername, "WebSocket request")
        self._cut_stalled(uptime_us)
        self._cut_silent(uptime_us)
        if self._certificates is not None and uptime_us - self._checked_certificates_us >= _CERTIFICATE_CHECK_US:
            self._checked_certificates_us = uptime_us
            self._certificates.reload_if_changed()
        self._counters.tell()

    def prepare(
        self, settings: config.ListenerConfig, options: ChannelOptions, identity: PeerIdentity
    ) -> Callable[[], None]:
        """Read the certificates again; what is returned has them and these settings hold for connections from then on.

        Args:
            settings: They differ from the present ones in `LIVE` at most.

        Raises:
            CertificateError: A certificate cannot be used.
        """
        use_certificates = None if self._certificates is None else self._certificates.prepare()

        def renew() -> None:
            self._settings, self.options, self._identity = settings, options, identity
            self._rules = AccessRules(settings.access_rules)
            if use_certificates is not None:
                use_certificates()

        return renew

    async def stop_accepting(self) -> None:
        """Close the listening sockets; connections go on, those that are not complete are closed."""
        if self._acceptor is not None:
            self._acceptor.close()
        close_sockets(self._sockets)
        self._sockets = []
        for pending in [each for each in self._pending if each.deadline_us]:
            self._pending.discard(pending)
            pending.close()
        for handshake in list(self._requests):
            handshake.abort()

    async def close(self, within_s: float) -> None:
        """Wait until every connection is gone; those that are not within `within_s` are cut."""
        if self._links:
            self._all_gone.clear()
            try:
                await asyncio.wait_for(self._all_gone.wait(), within_s)
            except TimeoutError:
                for link in list(self._links):
                    link.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._poller is not None:
            self._poller.close()

    def statistics(self) -> dict[str, int]:
        """How many connections there are, and how many did not become one, and why."""
        numbers = {
            "current_connections": len(self._links) + len(self._pending),
            **self._counters.statistics(),
        }
        if self._acceptor is not None:
            numbers.update(self._acceptor.statistics())
        return numbers

    def __repr__(self) -> str:
        return f"Listener({self.kind}:{self.name} at {self.address}, {len(self._links)} connections)"

    # --- called by connections

    def welcome(self, link: Link, pending: PendingConnection) -> Peer:
        """A connection stands, and over TLS its handshake is done; who is at its other end."""
        self._pending.discard(pending)
        self._links.add(link)
        if not self._settings.tcp_options.nodelay and pending.connection.family != socket.AF_UNIX:
            # The event loop switches it on for all.
            pending.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        own_address = self._own_address or own_address_text(pending.connection.getsockname())
        peer = Peer(pending.peername, own_address)
        header = pending.header
        if header is not None and header.source is not None:
            peer.peername = header.source
            if header.common_name is not None:
                self._identity.fill_in_common_name(peer, header.common_name)
        return peer

    def identify(self, peer: Peer, transport: asyncio.Transport) -> None:
        """Fill in what the certificate of a TLS connection says, unless a proxy said who is behind it."""
        if self._certificates is not None and peer.common_name is None:
            self._identity.fill_in(peer, transport.get_extra_info("ssl_object"))

    def await_request(self, handshake: UpgradingLink) -> None:
        """A connection has to ask for WebSocket from now on."""
        self._requests[handshake] = self._deadline_us(self._handshake_s)

    def replace(self, handshake: UpgradingLink, connection: Link) -> None:
        """A WebSocket handshake is done."""
        self._requests.pop(handshake, None)
        self._links.discard(handshake)
        self._links.add(connection)

    def lose(self, link: Link, channel: Channel | None) -> None:
        """A connection is gone: tell its channel, and forget it whatever comes of that."""
        try:
            if channel is not None:
                channel.connection_lost()
        finally:
            self.forget(link)

    def forget(self, link: Link) -> None:
        """A connection is gone."""
        self._links.discard(link)
        self._congested.pop(link, None)
        if isinstance(link, WebSocketHandshake):
            self._requests.pop(link, None)
        if not self._links:
            self._all_gone.set()

    def congested(self, link: Link) -> None:
        """A connection's buffer is full."""
        self._congested[link] = self.context.clock()

    def relieved(self, link: Link) -> None:
        """A connection's buffer has room again."""
        self._congested.pop(link, None)

    def count_failure(self, peername: str, reason: str) -> None:
        """A peer broke the protocol of TLS, WebSocket or its proxy."""
        self._counters.fail(peername, reason)

    # --- from a socket to a connection

    def _accepted(self, connection: socket.socket, address: object) -> None:
        if not self._rules.decides_nothing:
            host = plain_host(str(address[0])) if isinstance(address, tuple) else ""
            if not self._rules.allow(host):
                self._counters.denied += 1
                connection.close()
                return
        most = self._settings.max_connections
        if most is not None and len(self._links) + len(self._pending) >= most:
            self._counters.refused += 1
            connection.close()
            return
        pending = PendingConnection(
            connection, address_text(address if isinstance(address, tuple) else connection.getsockname())
        )
        self._pending.add(pending)
        if self._settings.proxy_protocol:
            within_s = min(self._settings.proxy_protocol_timeout, self._handshake_s)
            pending.read_header(self._deadline_us(within_s), self._begin, self._turn_away)
        else:
            self._begin(pending)

    def _begin(self, pending: PendingConnection) -> None:
        """Lead a socket whose peer is known to its connection."""
        # The system's buffer of a Unix socket cannot be waited for; who may open it is the file system's matter.
        if self._certificates is not None and pending.connection.family != socket.AF_UNIX:
            pending.await_hello(self._deadline_us(self._tls_handshake_s), self._join, self._turn_away)
        else:
            self._join(pending)

    def _turn_away(self, pending: PendingConnection, reason: str) -> None:
        self._pending.discard(pending)
        pending.close()
        self.count_failure(pending.peername, reason)

    def _join(self, pending: PendingConnection) -> None:
        if self._poller is not None:
            try:
                self._poller.connect(self._transport_of(self._poller, pending))
            except OSError as error:
                pending.connection.close()
                self.count_failure(pending.peername, f"accepting: {error}")
            finally:
                self._pending.discard(pending)
            return
        task = asyncio.get_running_loop().create_task(self._connect(pending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, pending: PendingConnection) -> None:
        """Make the socket a connection; over TLS, this is its handshake."""
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
            self.count_failure(pending.peername, f"{'TLS' if certificates is not None else 'accepting'}: {error}")
        finally:
            self._pending.discard(pending)

    def _transport_of(self, poller: Poller, pending: PendingConnection) -> SocketTransport:
        if self.websocket is None:
            return DirectConnection(poller, self, pending)
        return ProtocolTransport(poller, pending.connection, self._protocol_of(pending))

    def _protocol_of(self, pending: PendingConnection) -> asyncio.Protocol:
        kind = WebSocketHandshake if self.websocket is not None else Connection
        return cast("asyncio.Protocol", kind(self, pending))  # one by its methods

    def _deadline_us(self, within_s: float) -> int:
        return self.context.clock() + int(within_s * 1e6)

    # --- what takes too long

    def _cut_stalled(self, uptime_us: int) -> None:
        if self._send_timeout_us and self._congested:
            for link, since_us in list(self._congested.items()):
                if uptime_us - since_us > self._send_timeout_us:
                    self._counters.stalled += 1
                    self.context.broker.faults.run(CONNECTIONS, link.abort)

    def _cut_silent(self, uptime_us: int) -> None:
        timeout_s = None if self.websocket is None else self.websocket.idle_timeout
        if timeout_s is None:
            return
        checks = max(1, min(_SILENCE_CHECKS_MAX, int(timeout_s / _SILENCE_CHECK_S_MIN)))
        if uptime_us - self._checked_silence_us < timeout_s * 1e6 / checks:
            return
        self._checked_silence_us = uptime_us
        for link in list(self._links):
            if isinstance(link, WebSocketConnection) and link.is_silent(checks):
                self.context.broker.faults.run(CONNECTIONS, link.abort)
