"""The operator's limits that channels obey, as the hot path wants them: plain numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import i64

from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.session.options import SessionOptions

INFINITE: Final = 0x7FFFFFFFFFFFFFFF

AttributesOf = Callable[[ClientInfo, p.Connect], Mapping[str, str]]
"""Makes the attributes of a client that connects; called once for each CONNECT, raises nothing, must not wait."""


@dataclass(frozen=True)
class ChannelOptions:
    """What holds for every connection of a listener: its zone's `mqtt` section and the listener's own settings.

    A listener swaps it whole, for connections that come then; a connection has the one that it came with.

    Attributes:
        session: The limits of its sessions.
        listener: The listener, as `tcp:default`.
        zone: The zone.
        mountpoint: What stands before the topics of its clients; may hold `${clientid}`, `${username}` and
            `${client_attrs.NAME}`.
        enable_authn: Whether its clients are authenticated.
        deny_anonymous: Whether clients without a user name are refused before authentication.
        idle_timeout_us: How long a connection may wait with its CONNECT.
        max_packet_size: Bytes of the largest packet that is taken.
        max_clientid_len: Bytes of the longest client id.
        max_topic_levels: Levels of the longest topic filter.
        max_qos_allowed: The highest QoS that is taken.
        max_topic_alias: The highest topic alias that a client may use, and that is used towards it; 0 for none.
        exclusive_subscription: Whether `$exclusive/` filters may be subscribed to.
        max_subscriptions: Filters that one client may hold; `INFINITE` for no limit.
        max_shared_subscriptions: Of these, shared ones.
        session_expiry_interval_s: How long the session of an MQTT 3 client without clean session lives.
        message_expiry_interval_s: How long a message without an expiry interval of its own lives; -1 for ever.
        server_keepalive_s: The keepalive that replaces the clients' own; -1 to leave theirs.
        keepalive_multiplier_percent: How much longer than its keepalive a client may be silent.
        strict_mode: Whether strings may not hold control characters and non-characters either.
        response_information: The Response Information for a client that asks for it.
        use_username_as_clientid: Whether the user name replaces the client id.
        messages_rate: PUBLISH packets a second that one client may send, on average; 0 for no limit.
        messages_burst: How many more it may send at once.
        bytes_rate: Bytes a second that one client may send, on average; 0 for no limit.
        bytes_burst: How many more it may send at once.
        unsent_bytes_max: Bytes that may wait for a peer that does not read before it is cut; 0 for no limit.
        unsent_packets_max: Packets that may wait for such a peer; 0 for no limit.
        authz_cache_size: Decisions that a connection remembers; 0 for none.
        authz_cache_ttl_us: How long it remembers one.
        authz_cache_excludes: Topic filters that decisions are not remembered about.
        authz_disconnects: Whether a client that is denied loses its connection.
        attributes_of: Makes the attributes of its clients; None for none.
        max_user_properties: User properties that one packet may have.
        overload_delay_us: How long a CONNECT waits while the node is overloaded; -1 where it is let in at once.
        overload_refuses: Whether one that has waited in vain is refused.
    """

    session: SessionOptions = field(default_factory=SessionOptions)
    listener: str = "tcp:default"
    zone: str = "default"
    mountpoint: str = ""
    enable_authn: bool = True
    deny_anonymous: bool = False
    idle_timeout_us: i64 = 15_000_000
    max_packet_size: i64 = 1_048_576
    max_clientid_len: i64 = 65_535
    max_topic_levels: i64 = 128
    max_qos_allowed: i64 = 2
    max_topic_alias: i64 = 65_535
    retain_available: bool = True
    wildcard_subscription: bool = True
    shared_subscription: bool = True
    exclusive_subscription: bool = False
    max_subscriptions: i64 = INFINITE
    max_shared_subscriptions: i64 = INFINITE
    session_expiry_interval_s: i64 = 7_200
    message_expiry_interval_s: i64 = -1
    server_keepalive_s: i64 = -1
    keepalive_multiplier_percent: i64 = 150
    strict_mode: bool = False
    response_information: str = ""
    use_username_as_clientid: bool = False
    messages_rate: float = 0.0
    messages_burst: float = 0.0
    bytes_rate: float = 0.0
    bytes_burst: float = 0.0
    unsent_bytes_max: i64 = 33_554_432
    unsent_packets_max: i64 = 100_000
    authz_cache_size: i64 = 32
    authz_cache_ttl_us: i64 = 60_000_000
    authz_cache_excludes: tuple[str, ...] = ()
    authz_disconnects: bool = False
    attributes_of: AttributesOf | None = None
    max_user_properties: i64 = 256
    overload_delay_us: i64 = -1
    overload_refuses: bool = False

    def due_us(self, uptime_us: i64) -> i64:
        """The deadline of an answer that is asked for now; 0 for none."""
        return uptime_us + self.idle_timeout_us if self.idle_timeout_us != 0 else 0

    def silence_us_max(self, keepalive_s: i64) -> i64:
        """How long a client of a keepalive may be silent; 0 for ever."""
        return keepalive_s * 10_000 * self.keepalive_multiplier_percent
