"""What a listener and its connections know of each other."""

import asyncio
from typing import Protocol

from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.channel.peer import Peer
from heliograph.transport.pending_connection import PendingConnection
from heliograph.transport.upgrade import UpgradePolicy


class Link(Protocol):
    """A connection that a listener holds, in whichever state."""

    def abort(self) -> None:
        """Close it at once."""


class UpgradingLink(Link, Protocol):
    """A connection that has to ask for WebSocket."""

    @property
    def peername(self) -> str:
        """Where it comes from, until it is answered."""


class LinkOwner(Protocol):
    """The listener of a connection, as the connection calls it.

    Attributes:
        context: What the channels of the node share.
        options: What its channels are given.
        high_watermark: Unsent bytes of one connection beyond which its session holds back.
        upgrades: How WebSocket requests are answered.
        message_bytes_max: Bytes of the largest WebSocket message; 0 for no limit.
        is_single: Whether each MQTT packet is a WebSocket message of its own.
    """

    context: ChannelContext
    options: ChannelOptions
    high_watermark: int
    upgrades: UpgradePolicy
    message_bytes_max: int
    is_single: bool

    def welcome(self, link: Link, pending: PendingConnection) -> Peer:
        """A connection stands, and over TLS its handshake is done; who is at its other end."""

    def identify(self, peer: Peer, transport: asyncio.Transport) -> None:
        """Fill in what the certificate of a TLS connection says, unless a proxy said who is behind it."""

    def await_request(self, handshake: UpgradingLink) -> None:
        """A connection has to ask for WebSocket from now on."""

    def replace(self, handshake: UpgradingLink, connection: Link) -> None:
        """A WebSocket handshake is done."""

    def lose(self, link: Link, channel: Channel | None) -> None:
        """A connection is gone: tell its channel, and forget it whatever comes of that."""

    def forget(self, link: Link) -> None:
        """A connection is gone."""

    def congested(self, link: Link) -> None:
        """A connection's buffer is full."""

    def relieved(self, link: Link) -> None:
        """A connection's buffer has room again."""

    def count_failure(self, peername: str, reason: str) -> None:
        """A peer broke the protocol of TLS, WebSocket or its proxy."""
