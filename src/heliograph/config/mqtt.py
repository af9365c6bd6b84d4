"""Settings of `mqtt`, `force_shutdown` and `broker`: what is allowed and done in an MQTT conversation, and routing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.config.kinds import PriorityTable
from heliograph.settings.fields import How, named_sections, section_list, setting
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    Number,
    RefusedError,
    Size,
    Text,
    Unless,
    Words,
)

_MB = 1024 * 1024
_HOUR = 3600.0
_PRIORITIES = {"lowest": 0, "highest": 256}  # below and above all that a topic can have
INITIAL_STICKY_PICKS = ("random", "local", "hash_topic", "hash_clientid")
SHARED_STRATEGIES = ("random", "round_robin", "round_robin_per_group", "sticky", "local", "hash_clientid", "hash_topic")
_EXAMPLE: Final = "{ expression = \"nth(1, tokens(clientid, '-'))\", set_as_attr = group }"


@dataclass(frozen=True, slots=True)
class ClientAttribute:
    expression: str = setting(
        Text("a variform expression"),
        "",
        "What it is: a variform expression over what is known of a client that connects. Where it fails, or gives the "
        "empty text, nothing is set.",
    )
    set_as_attr: str = setting(
        Text("a name of letters, digits, _ and -", r"[0-9A-Za-z_-]{1,255}"),
        "",
        "The name of the attribute; of several expressions for one name the last that gives something counts.",
    )

    def __post_init__(self) -> None:
        if bool(self.expression) != bool(self.set_as_attr):
            missing = "set_as_attr" if self.expression else "expression"
            raise RefusedError(f"an attribute needs {missing} too, as in {_EXAMPLE}")


@dataclass(frozen=True, slots=True)
class MqttConfig:
    idle_timeout: float | None = setting(
        Unless(Duration(0.001), "infinity"),
        15.0,
        "How long a new connection may wait before it sends CONNECT, and how long the answer of a hook is waited for.",
    )
    max_packet_size: int = setting(Size(16, 256 * _MB), _MB, "Largest MQTT packet that a client may send.")
    max_clientid_len: int = setting(Integer(23, 65535), 65535, "Longest client id, in bytes.", how=How.NEW_CONNECTIONS)
    max_topic_levels: int = setting(Integer(1, 65535), 128, "Most levels of a topic or topic filter.")
    max_qos_allowed: int = setting(
        Integer(0, 2), 2, "Highest QoS that a client may publish with; subscriptions are granted no higher one."
    )
    max_topic_alias: int = setting(
        Integer(0, 65535),
        65535,
        "Topic aliases that a client may set; 0 allows none.",
        how=How.NEW_CONNECTIONS,
    )
    server_topic_alias: int = setting(
        Integer(0, 256),
        256,
        "Topic aliases that the broker sets towards a client that takes as many; 0 for whole topics always.",
        how=How.NEW_CONNECTIONS,
    )
    max_user_properties: int = setting(
        Integer(0, 200_000), 256, "Most user properties of one packet; a client that sends more is disconnected."
    )
    retain_available: bool = setting(Boolean(), True, "Whether retained messages are allowed.")
    wildcard_subscription: bool = setting(Boolean(), True, "Whether topic filters may hold `+` and `#`.")
    shared_subscription: bool = setting(
        Boolean(), True, "Whether `$share/group/filter` and `$queue/filter` are allowed."
    )
    shared_subscription_strategy: str = setting(
        Choice(*SHARED_STRATEGIES), "round_robin", "How a shared subscription picks the member that gets a message."
    )
    shared_subscription_initial_sticky_pick: str = setting(
        Choice(*INITIAL_STICKY_PICKS),
        "random",
        "How the strategy `sticky` picks a member for the first time.",
    )
    exclusive_subscription: bool = setting(
        Boolean(), False, "Whether `$exclusive/topic` may be subscribed to, by one client at a time."
    )
    ignore_loop_deliver: bool = setting(
        Boolean(), False, "Whether MQTT 3 clients do not get what they publish themselves, as with no-local in MQTT 5."
    )
    strict_mode: bool = setting(
        Boolean(), False, "Whether strings may not hold control characters and Unicode non-characters either."
    )
    response_information: str = setting(
        AnyText(),
        "",
        "Response Information for clients that ask for it; empty for none.",
        how=How.NEW_CONNECTIONS,
    )
    upgrade_qos: bool = setting(
        Boolean(), False, "Whether a message is delivered at the QoS of the subscription if that is the higher one."
    )
    keepalive_multiplier: float = setting(
        Number(1.0), 1.5, "A silent client is disconnected after its keepalive times this."
    )
    server_keepalive: int | None = setting(
        Unless(Integer(1, 65535), "disabled", "disable"),
        None,
        "Keepalive in seconds that the broker imposes on MQTT 5 clients instead of their own.",
        how=How.NEW_CONNECTIONS,
    )
    retry_interval: float | None = setting(
        Unless(Duration(1.0), "infinity"),
        None,
        "After how long an MQTT 3 client is sent an unacknowledged message again; MQTT 5 allows it on reconnect only.",
    )
    max_subscriptions: int | None = setting(
        Unless(Integer(1), "infinity"), 100_000, "Subscriptions of one client; a further one is refused with 0x97."
    )
    max_shared_subscriptions: int | None = setting(
        Unless(Integer(1), "infinity"),
        1000,
        "Shared subscriptions of one client, which each make a group; a further one is refused with 0x97.",
    )
    max_inflight: int = setting(
        Integer(1, 65535), 32, "QoS 1 and 2 messages sent to a client that it has not acknowledged yet."
    )
    max_mqueue_len: int | None = setting(
        Unless(Integer(1), "infinity", zero=True),
        1000,
        "Messages that wait for one client while its window is full or it is offline; beyond it messages are dropped.",
    )
    max_mqueue_bytes: int | None = setting(
        Unless(Size(1024), "infinity", zero=True),
        8 * _MB,
        "Bytes of the messages that wait for one client, 512 added for each; beyond it messages are dropped. One "
        "message may always wait.",
    )
    mqueue_priorities: Mapping[str, int] | None = setting(
        Unless(PriorityTable(), "disabled"), None, "Priorities of topics in that queue; higher ones are sent first."
    )
    mqueue_default_priority: int = setting(
        Words(_PRIORITIES), 0, "The priority of topics that `mqueue_priorities` does not name."
    )
    mqueue_store_qos0: bool = setting(Boolean(), True, "Whether QoS 0 messages wait in that queue too.")
    max_awaiting_rel: int | None = setting(
        Unless(Integer(1), "infinity"), 1000, "QoS 2 messages of one client that await its PUBREL."
    )
    await_rel_timeout: float = setting(
        Duration(0.001), 300.0, "How long a QoS 2 message awaits its PUBREL before it is forgotten."
    )
    session_expiry_interval: float = setting(
        Duration(0.0, 4294967295.0),
        2 * _HOUR,
        "How long the session of an MQTT 3.1.1 client without clean session outlives its connection.",
        how=How.NEW_CONNECTIONS,
    )
    message_expiry_interval: float | None = setting(
        Unless(Duration(1.0, 4294967295.0), "infinity"),
        None,
        "How long a message without an expiry interval of its own may wait for its receivers.",
    )
    use_username_as_clientid: bool = setting(
        Boolean(), False, "Whether the user name replaces the client id.", how=How.NEW_CONNECTIONS
    )
    bind_session_to_user: bool = setting(
        Boolean(),
        True,
        "Whether a session belongs to the user that an authenticator let in with it: others are refused with 0x87.",
        how=How.NEW_CONNECTIONS,
    )
    peer_cert_as_username: str = setting(
        Choice("disabled", "cn", "dn", "crt", "pem", "md5"),
        "disabled",
        "What of a client's certificate replaces its user name (TLS listeners that ask for certificates).",
        how=How.NEW_CONNECTIONS,
    )
    peer_cert_as_clientid: str = setting(
        Choice("disabled", "cn", "dn", "crt", "pem", "md5"),
        "disabled",
        "What of a client's certificate replaces its client id.",
        how=How.NEW_CONNECTIONS,
    )
    client_attrs_init: tuple[ClientAttribute, ...] = section_list(
        ClientAttribute,
        "What is made of a client when it connects, to be known of it as `client_attrs.NAME`.",
        how=How.NEW_CONNECTIONS,
    )


@dataclass(frozen=True, slots=True)
class ForceShutdown:
    """When a connection is cut because too much waits for its peer."""

    enable: bool = setting(Boolean(), True, "Whether such connections are cut.")
    max_mailbox_size: int = setting(
        Integer(1),
        100_000,
        "Pieces of packets (up to three each) that may wait for a peer that does not read what it is sent.",
    )
    max_heap_size: int = setting(
        Size(65536), 32 * _MB, "Bytes that may wait for it, beyond what `tcp_options.high_watermark` lets pass."
    )


@dataclass(frozen=True, slots=True)
class SharedGroupConfig:
    strategy: str = setting(
        Choice(*SHARED_STRATEGIES), "round_robin", "How the group picks the member that gets a message."
    )
    initial_sticky_pick: str = setting(
        Choice(*INITIAL_STICKY_PICKS), "random", "How its strategy `sticky` picks a member for the first time."
    )


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    route_cache_size: int = setting(
        Integer(1), 100_000, "Topics whose routes are remembered; when there are more, the cache starts again."
    )
    max_disconnected_sessions: int | None = setting(
        Unless(Integer(1), "infinity"),
        1_000_000,
        "Sessions of the node whose clients are away; while there are so many, a client that has none and wants one "
        "that outlives its connection is refused with 0x97.",
    )
    disconnect_history_size: int = setting(
        Integer(0, 1_000_000),
        10_000,
        "Disconnects of all clients that are remembered, the newest ones, with reason and time: some 300 bytes each.",
    )
    shared_subscription_group: Mapping[str, SharedGroupConfig] = named_sections(
        SharedGroupConfig, (), "Groups of shared subscriptions with a strategy of their own."
    )


def empty_attributes(attributes: Sequence[ClientAttribute]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The path within the list, and what is wrong."""
    for number, attribute in enumerate(attributes, 1):
        if not attribute.expression:
            yield (str(number),), f"the attribute is empty; it looks like {_EXAMPLE}"
