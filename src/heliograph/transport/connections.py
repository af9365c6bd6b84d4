"""The connections of one listener: welcomed, cut when they take too long or are silent, awaited when it stops."""

import asyncio
import socket
from typing import TYPE_CHECKING, Final, Protocol

from heliograph.broker.faults import CONNECTIONS
from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.config import listeners as config
from heliograph.transport.addresses import own_address_text
from heliograph.transport.listener_counters import ListenerCounters
from heliograph.transport.peer_certificate import PeerIdentity
from heliograph.transport.pending_connection import PendingConnection

if TYPE_CHECKING:
    from heliograph.transport.upgrade import UpgradePolicy

_SILENCE_CHECKS_MAX: Final = 8  # checks for silence in one idle timeout
_SILENCE_CHECK_S_MIN: Final = 0.5  # ticks come no faster
_FOR_EVER_S: Final = 1e9


class Link(Protocol):
    def abort(self) -> None: ...


class UpgradingLink(Link, Protocol):
    @property
    def peername(self) -> str: ...


class UpgradedLink(Link, Protocol):
    def is_silent(self, checks_max: int) -> bool:
        """Whether nothing came since so many of these questions."""


class Connections:
    """The connections of one listener, which owns it; they call it, from the compiled ones too.

    Attributes:
        pending: Sockets that were accepted and are no connections yet.
        links: All that stand, those that have yet to ask for WebSocket among them.
        congested: Those whose buffers are full: since when, and their channels.
        own_address: What connections come to; empty where that is asked for each.
        high_watermark: Unsent bytes of one connection beyond which its session holds back.
        upgrades: How WebSocket requests are answered; missing where the listener takes none.
        message_bytes_max: Bytes of the largest WebSocket message; 0 for no limit.
        is_single: Whether each MQTT packet is a WebSocket message of its own.
    """

    upgrades: "UpgradePolicy"

    def __init__(
        self,
        context: ChannelContext,
        options: ChannelOptions,
        settings: config.ListenerConfig,
        identity: PeerIdentity,
        counters: ListenerCounters,
    ) -> None:
        self.context = context
        self.options = options
        self.identity = identity
        self.pending: set[PendingConnection] = set()
        self.links: set[Link] = set()
        self.congested: dict[Link, tuple[int, Channel | None]] = {}
        self.own_address = ""
        self._has_tls = isinstance(settings, config.SslListener | config.WssListener)
        self._counters = counters
        self._requests: dict[UpgradingLink, int] = {}  # until when they may take
        self._upgraded: set[UpgradedLink] = set()
        self._all_gone = asyncio.Event()
        self._checked_silence_us = context.clock()
        self.renew(options, settings, identity)

    def renew(self, options: ChannelOptions, settings: config.ListenerConfig, identity: PeerIdentity) -> None:
        self.options = options
        self.identity = identity
        self.high_watermark = settings.tcp_options.high_watermark
        websocket = settings.websocket if isinstance(settings, config.WsListener | config.WssListener) else None
        if websocket is not None:
            from heliograph.transport.upgrade import UpgradePolicy  # with `websockets`: others do not need it

            self.upgrades = UpgradePolicy(websocket)
        self.message_bytes_max = 0 if websocket is None else websocket.max_frame_size or 0
        self.is_single = websocket is not None and websocket.mqtt_piggyback == "single"
        self._delays_small_packets = not settings.tcp_options.nodelay
        self._send_timeout_us = int((settings.tcp_options.send_timeout or 0) * 1e6)
        self._idle_timeout_s = None if websocket is None else websocket.idle_timeout

    def __len__(self) -> int:
        return len(self.links) + len(self.pending)

    @property
    def handshake_s(self) -> float:
        return float(self.options.idle_timeout_us) / 1e6 or _FOR_EVER_S

    def deadline_us(self, within_s: float) -> int:
        """When so many seconds will have passed."""
        return self.context.clock() + int(within_s * 1e6)

    # --- called by connections

    def welcome(self, link: Link, pending: PendingConnection) -> Peer:
        """A connection stands, and over TLS its handshake is done; who is at its other end."""
        self.pending.discard(pending)
        self.links.add(link)
        if self._delays_small_packets and pending.connection.family != socket.AF_UNIX:
            # The event loop switches it on for all.
            pending.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        peer = Peer(pending.peername, self.own_address or own_address_text(pending.connection.getsockname()))
        header = pending.header
        if header is not None and header.source is not None:
            peer.peername = header.source
            if header.common_name is not None:
                self.identity.fill_in_common_name(peer, header.common_name)
        return peer

    def identify(self, peer: Peer, transport: asyncio.Transport) -> None:
        """Fill in what the certificate of a TLS connection says, unless a proxy said who is behind it."""
        if self._has_tls and peer.common_name is None:
            self.identity.fill_in(peer, transport.get_extra_info("ssl_object"))

    def await_request(self, handshake: UpgradingLink) -> None:
        self._requests[handshake] = self.deadline_us(self.handshake_s)

    def replace(self, handshake: UpgradingLink, connection: UpgradedLink) -> None:
        self._requests.pop(handshake, None)
        self.links.discard(handshake)
        self.links.add(connection)
        self._upgraded.add(connection)

    def lose(self, link: Link, channel: Channel | None) -> None:
        """A connection is gone: tell its channel, and forget it whatever comes of that."""
        try:
            if channel is not None:
                channel.connection_lost()
        finally:
            self.links.discard(link)
            self._end_of(link)

    def lose_upgraded(self, link: UpgradedLink, channel: Channel | None) -> None:
        self._upgraded.discard(link)
        self.lose(link, channel)

    def forget(self, handshake: UpgradingLink) -> None:
        self._requests.pop(handshake, None)
        self.links.discard(handshake)
        self._end_of(handshake)

    def congest(self, link: Link, channel: Channel | None) -> None:
        self.congested[link] = self.context.clock(), channel

    def relieve(self, link: Link) -> None:
        self.congested.pop(link, None)

    def count_failure(self, peername: str, reason: str) -> None:
        """A peer broke the protocol of TLS, WebSocket or its proxy."""
        self._counters.fail(peername, reason)

    # --- called by the listener

    def stuck(self, before_us: int) -> list[Channel]:
        """The channels of those whose buffers have been full since then at least."""
        return [
            channel for since_us, channel in self.congested.values() if channel is not None and since_us <= before_us
        ]

    def tick(self, uptime_us: int) -> None:
        """Time has passed: end what takes too long."""
        run = self.context.broker.faults.run  # one that raises keeps the others from nothing
        for pending in [each for each in self.pending if 0 < each.deadline_us < uptime_us]:
            self.pending.discard(pending)
            run(CONNECTIONS, pending.close)
            self._counters.time_out(pending.peername, "TLS or PROXY handshake")
        for handshake in [each for each, deadline_us in self._requests.items() if deadline_us < uptime_us]:
            run(CONNECTIONS, handshake.abort)
            self._counters.time_out(handshake.peername, "WebSocket request")
        if self._send_timeout_us:
            for link in [
                each for each, (since_us, _) in self.congested.items() if uptime_us - since_us > self._send_timeout_us
            ]:
                self._counters.stalled += 1
                run(CONNECTIONS, link.abort)
        if self._idle_timeout_s is not None:
            self._cut_silent(uptime_us, self._idle_timeout_s)

    def drop_incomplete(self) -> None:
        for pending in [each for each in self.pending if each.deadline_us]:
            self.pending.discard(pending)
            pending.close()
        for handshake in list(self._requests):
            handshake.abort()

    async def end(self, within_s: float) -> None:
        """Wait until every connection is gone; those that are not within `within_s` are cut."""
        if self.links:
            self._all_gone.clear()
            try:
                await asyncio.wait_for(self._all_gone.wait(), within_s)
            except TimeoutError:
                for link in list(self.links):
                    link.abort()

    def _cut_silent(self, uptime_us: int, timeout_s: float) -> None:
        checks = max(1, min(_SILENCE_CHECKS_MAX, int(timeout_s / _SILENCE_CHECK_S_MIN)))
        if uptime_us - self._checked_silence_us >= timeout_s * 1e6 / checks:
            self._checked_silence_us = uptime_us
            for link in list(self._upgraded):
                if link.is_silent(checks):
                    self.context.broker.faults.run(CONNECTIONS, link.abort)

    def _end_of(self, link: Link) -> None:
        self.congested.pop(link, None)
        if not self.links:
            self._all_gone.set()
