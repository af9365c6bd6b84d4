"""What events read of clients and messages: attributes of the kernel's classes, which this package may not import."""

from typing import Final, Protocol

# The client id of messages that the broker makes itself; no client can have it.
SYSTEM_CLIENTID: Final = ""


class ClientView(Protocol):
    """A client at its connection: `broker.client.ClientInfo`."""

    @property
    def clientid(self) -> str:
        """Its client id."""

    @property
    def username(self) -> str | None:
        """Its user name, or None."""

    @property
    def peername(self) -> str:
        """The peer's address as `host:port`."""

    @property
    def peerhost(self) -> str:
        """The peer's address without its port."""

    @property
    def expiry_interval_s(self) -> int:
        """How long its session outlives its connection, in seconds."""

    @property
    def sockname(self) -> str:
        """Our address as `host:port`."""

    @property
    def mountpoint(self) -> str:
        """What stands before its topics."""

    @property
    def version(self) -> int:
        """Its protocol version: 3, 4 or 5."""

    @property
    def clean_start(self) -> bool:
        """Whether it asked for a new session."""

    @property
    def keepalive_s(self) -> int:
        """The keepalive that holds, 0 for none."""

    @property
    def connected_at_us(self) -> int:
        """When it connected, microseconds since the epoch."""


class MessageView(Protocol):
    """A message: `broker.message.Message`."""

    @property
    def guid(self) -> bytes:
        """Its id, 16 bytes."""

    @property
    def topic(self) -> str:
        """The topic name that it was published to."""

    @property
    def payload(self) -> bytes:
        """Its payload."""

    @property
    def qos(self) -> int:
        """The QoS that it was published with."""

    @property
    def retain(self) -> bool:
        """Whether it was published with the retain flag."""

    @property
    def clientid(self) -> str:
        """Who published it."""

    @property
    def username(self) -> str | None:
        """Under which user name, if any."""

    @property
    def property_bytes(self) -> bytes:
        """Its MQTT 5 properties in wire form."""

    @property
    def received_at(self) -> int:
        """When the broker received it, in microseconds since the epoch."""
