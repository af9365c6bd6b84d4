"""Every setting of Heliograph: the frozen dataclasses that the program reads are the schema of the file.

A field's name is its name in the file, its default is the default, and its kind says what a file may hold. Names and
meanings are EMQX 5's where it has them. Durations are seconds, sizes are bytes, None means infinity or disabled.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.config.kinds import (
    Bind,
    Boolean,
    Choice,
    Duration,
    Integer,
    ListOf,
    Number,
    Size,
    Text,
    TopicFilter,
    Unless,
    list_setting,
    named_sections,
    section,
    setting,
)
from heliograph.config.units import Address

_KB = 1024
_MB = 1024 * 1024
_HOUR = 3600.0
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """This node."""

    name: str = setting(
        Text("a node name such as heliograph@127.0.0.1", r"[A-Za-z0-9_-]+@[A-Za-z0-9._:-]+"),
        "heliograph@127.0.0.1",
        "Name of the node, unique in its cluster.",
    )
    data_dir: str = setting(
        Text("a directory"),
        "data",
        "Directory for everything that the node stores; relative to the working directory. `--data-dir` overrides it.",
    )


@dataclass(frozen=True, slots=True)
class TcpListener:
    """One MQTT listener on TCP."""

    enable: bool = setting(Boolean(), True, "Whether the listener is started.")
    bind: Address = setting(
        Bind(), Address("127.0.0.1", 1883), "Address and port to listen on; a port alone means every interface."
    )
    max_connections: int | None = setting(
        Unless(Integer(1), "infinity"), None, "Connections that the listener holds at the same time."
    )
    backlog: int = setting(
        Integer(1, 65535), 1024, "Connections that may wait to be accepted (the system may allow fewer)."
    )


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where clients connect."""

    tcp: Mapping[str, TcpListener] = named_sections(
        TcpListener, ("default",), "MQTT over TCP. The listener `default` is there unless it is switched off."
    )


@dataclass(frozen=True, slots=True)
class MqttConfig:
    """What the broker allows and does in an MQTT conversation."""

    idle_timeout: float | None = setting(
        Unless(Duration(0.001), "infinity"),
        15.0,
        "How long a new connection may wait before it sends CONNECT.",
    )
    max_packet_size: int = setting(Size(16, 256 * _MB), _MB, "Largest MQTT packet that a client may send.")
    max_clientid_len: int = setting(Integer(23, 65535), 65535, "Longest client id, in bytes.")
    max_topic_levels: int = setting(Integer(1, 65535), 128, "Most levels of a topic or topic filter.")
    max_qos_allowed: int = setting(Integer(0, 2), 2, "Highest QoS that a client may publish with.")
    max_topic_alias: int = setting(Integer(0, 65535), 65535, "Topic aliases per connection; 0 allows none.")
    retain_available: bool = setting(Boolean(), True, "Whether retained messages are allowed.")
    wildcard_subscription: bool = setting(Boolean(), True, "Whether topic filters may hold `+` and `#`.")
    max_subscriptions: int | None = setting(Unless(Integer(1), "infinity"), None, "Subscriptions of one client.")
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
    )
    max_inflight: int = setting(
        Integer(1, 65535), 32, "QoS 1 and 2 messages sent to a client that it has not acknowledged yet."
    )
    max_mqueue_len: int | None = setting(
        Unless(Integer(1), "infinity", zero=True),
        1000,
        "Messages that wait for one client while its window is full or it is offline; beyond it messages are dropped.",
    )
    mqueue_store_qos0: bool = setting(Boolean(), True, "Whether QoS 0 messages wait in that queue too.")
    max_awaiting_rel: int | None = setting(
        Unless(Integer(1), "infinity"), 100, "QoS 2 messages of one client that await its PUBREL."
    )
    await_rel_timeout: float = setting(
        Duration(0.001), 300.0, "How long a QoS 2 message awaits its PUBREL before it is forgotten."
    )
    session_expiry_interval: float = setting(
        Duration(0.0, 4294967295.0),
        2 * _HOUR,
        "How long the session of an MQTT 3.1.1 client without clean session outlives its connection.",
    )


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Routing."""

    route_cache_size: int = setting(
        Integer(1), 100_000, "Topics whose routes are remembered; when there are more, the cache starts anew."
    )


@dataclass(frozen=True, slots=True)
class RetainerConfig:
    """Retained messages."""

    enable: bool = setting(Boolean(), True, "Whether retained messages are kept.")
    max_retained_messages: int | None = setting(
        Unless(Integer(1), "infinity", zero=True),
        None,
        "Topics with a retained message; beyond it new ones are refused.",
    )
    max_payload_size: int = setting(Size(1), _MB, "Largest payload that is retained.")
    msg_expiry_interval: float = setting(
        Duration(), 0.0, "How long a retained message without an expiry of its own is kept; 0s is for ever."
    )


@dataclass(frozen=True, slots=True)
class LayoutConfig:
    """How a generation keeps its messages; a change takes effect with the next generation."""

    wildcard_thresholds: tuple[int, ...] = list_setting(
        ListOf(Integer(1), at_least=1),
        (100, 10),
        "Different values from which a topic level is taken as a variable, level by level; the last is for the rest.",
    )
    compression: str = setting(Choice("zstd", "lz4", "none"), "zstd", "Compression of stored blocks.")


@dataclass(frozen=True, slots=True)
class MessagesConfig:
    """The database of messages."""

    topics: tuple[str, ...] = list_setting(
        ListOf(TopicFilter()),
        ("#",),
        "Topic filters of the messages to store; `#` does not cover topics that start with `$`, and [] stores nothing.",
    )
    n_shards: int = setting(Integer(1, 1024), 1, "Shards of a new database.")
    retention: float | None = setting(
        Unless(Duration(1.0), "infinity"),
        7 * _DAY,
        "How long messages are kept at least; nothing removes older ones yet.",
    )
    fsync: bool = setting(
        Boolean(), True, "Whether a commit is on the disk, not only with the system, before it is acknowledged."
    )
    max_buffered_bytes: int = setting(Size(64 * _KB), 64 * _MB, "Messages that may wait for their commit, in bytes.")
    layout: LayoutConfig = section(LayoutConfig, "How messages lie on disk.")


@dataclass(frozen=True, slots=True)
class FlightConfig:
    """The reader process that serves stored messages over Arrow Flight."""

    enable: bool = setting(Boolean(), True, "Whether the reader process is started.")
    bind: Address = setting(Bind(), Address("127.0.0.1", 8815), "Address and port of the reader.")


@dataclass(frozen=True, slots=True)
class DurableStorageConfig:
    """What is stored on disk, and how it is read."""

    messages: MessagesConfig = section(MessagesConfig, "Stored messages.")
    flight: FlightConfig = section(FlightConfig, "Bulk reads over Arrow Flight.")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The log."""

    level: str = setting(Choice("debug", "info", "warning", "error"), "info", "Least severe entries that are written.")


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration of a node; without a file, every field has its default."""

    node: NodeConfig = section(NodeConfig, "The node.")
    listeners: Listeners = section(Listeners, "Where clients connect.")
    mqtt: MqttConfig = section(MqttConfig, "The MQTT protocol.")
    broker: BrokerConfig = section(BrokerConfig, "Routing.")
    retainer: RetainerConfig = section(RetainerConfig, "Retained messages.")
    durable_storage: DurableStorageConfig = section(DurableStorageConfig, "Stored messages.")
    log: LogConfig = section(LogConfig, "The log.")
