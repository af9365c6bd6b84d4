"""The operator's limits that channels obey, as the hot path wants them: plain numbers.

Records have no defaults, which are the settings'; they are made by `node/options.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mypy_extensions import i64

from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.session.options import SessionOptions

AttributesOf = Callable[[ClientInfo, p.Connect], Mapping[str, str]]
"""Makes the attributes of a client that connects; called once for each CONNECT, raises nothing, must not wait."""


@dataclass(frozen=True)
class ListenerOptions:
    """What a listener itself says: its settings of the same names, and some of its own. A connection keeps it.

    Attributes:
        mountpoint: What stands before the topics of its clients; may hold `${clientid}`, `${username}` and
            `${client_attrs.NAME}`.
        messages_rate: PUBLISH packets a second that one client may send, on average; 0 for no limit.
        messages_burst: How many more it may send at once.
        bytes_rate: Bytes a second that one client may send, on average; 0 for no limit.
        bytes_burst: How many more it may send at once.
        attributes_of: Makes the attributes of its clients; None for none.
    """

    name: str
    mountpoint: str
    enable_authn: bool
    deny_anonymous: bool
    messages_rate: float
    messages_burst: float
    bytes_rate: float
    bytes_burst: float
    attributes_of: AttributesOf | None


@dataclass(frozen=True)
class ChannelOptions:
    """What holds for every connection of a listener: the settings of `mqtt` of the same names, and others.

    A listener swaps it whole, for connections that come then; a connection has the one that it came with. A number is 0
    where a setting has no limit or is switched off.

    Attributes:
        unsent_bytes_max: Bytes that may wait for a peer that does not read before it is cut; 0 for no limit.
        unsent_packets_max: Packets that may wait for such a peer; 0 for no limit.
        authz_cache_size: Decisions that a connection remembers; 0 for none.
        authz_cache_ttl_us: How long it remembers one.
        authz_cache_excludes: Topic filters that decisions are not remembered about.
        overload_delay_us: How long a CONNECT waits while the node is overloaded; -1 where it is let in at once.
        overload_refuses: Whether one that has waited in vain is refused.
    """

    session: SessionOptions
    listener: ListenerOptions
    zone: str
    idle_timeout_us: i64
    max_packet_size: i64
    max_clientid_len: i64
    max_topic_levels: i64
    max_qos_allowed: i64
    max_topic_alias: i64
    server_topic_alias: i64
    max_user_properties: i64
    retain_available: bool
    wildcard_subscription: bool
    shared_subscription: bool
    exclusive_subscription: bool
    max_subscriptions: i64
    max_shared_subscriptions: i64
    session_expiry_interval_s: i64
    message_expiry_interval_s: i64
    server_keepalive_s: i64
    keepalive_multiplier_percent: i64
    strict_mode: bool
    response_information: str
    use_username_as_clientid: bool
    bind_session_to_user: bool
    unsent_bytes_max: i64
    unsent_packets_max: i64
    authz_cache_size: i64
    authz_cache_ttl_us: i64
    authz_cache_excludes: tuple[str, ...]
    authz_disconnects: bool
    overload_delay_us: i64
    overload_refuses: bool

    def due_us(self, uptime_us: i64) -> i64:
        """The deadline of an answer that is asked for now; 0 for none."""
        return uptime_us + self.idle_timeout_us if self.idle_timeout_us != 0 else 0

    def silence_us_max(self, keepalive_s: i64) -> i64:
        """How long a client of a keepalive may be silent; 0 for ever."""
        return keepalive_s * 10_000 * self.keepalive_multiplier_percent
