"""The operator's limits that channels obey, as the hot path wants them: plain numbers."""

from mypy_extensions import i64

INFINITE: i64 = 0x7FFFFFFFFFFFFFFF


class ChannelOptions:
    """Limits of every connection of a listener; see the `mqtt` section of the configuration.

    Args:
        idle_timeout_us: How long a connection may wait with its CONNECT.
        max_packet_size: Bytes of the largest packet that is taken.
        max_clientid_len: Bytes of the longest client id.
        max_topic_levels: Levels of the longest topic filter.
        max_qos_allowed: The highest QoS that is taken.
        max_topic_alias: The highest topic alias that a client may use; 0 for none.
        session_expiry_interval_s: How long the session of an MQTT 3 client without clean session lives.
        server_keepalive_s: The keepalive that replaces the clients' own; -1 to leave theirs.
        keepalive_multiplier_percent: How much longer than its keepalive a client may be silent.
        max_subscriptions: Filters that one client may hold; `INFINITE` for no limit.
    """

    def __init__(
        self,
        idle_timeout_us: i64 = 15_000_000,
        max_packet_size: i64 = 1_048_576,
        max_clientid_len: i64 = 65_535,
        max_topic_levels: i64 = 128,
        max_qos_allowed: i64 = 2,
        max_topic_alias: i64 = 65_535,
        retain_available: bool = True,
        wildcard_subscription: bool = True,
        max_subscriptions: i64 = INFINITE,
        session_expiry_interval_s: i64 = 7_200,
        server_keepalive_s: i64 = -1,
        keepalive_multiplier_percent: i64 = 150,
    ) -> None:
        self.idle_timeout_us = idle_timeout_us
        self.max_packet_size = max_packet_size
        self.max_clientid_len = max_clientid_len
        self.max_topic_levels = max_topic_levels
        self.max_qos_allowed = max_qos_allowed
        self.max_topic_alias = max_topic_alias
        self.retain_available = retain_available
        self.wildcard_subscription = wildcard_subscription
        self.max_subscriptions = max_subscriptions
        self.session_expiry_interval_s = session_expiry_interval_s
        self.server_keepalive_s = server_keepalive_s
        self.keepalive_multiplier_percent = keepalive_multiplier_percent
