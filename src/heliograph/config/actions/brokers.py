"""Settings of connectors and actions of the types `kafka_producer` and `mqtt`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.interface import (
    ONE_CONNECTION,
    WAITS,
    ActionConfig,
    ConnectorConfig,
    RowTemplate,
    SentTemplate,
    ServerConnectorConfig,
    ignored,
)
from heliograph.settings.addresses import ServerAddress, ServerAddresses
from heliograph.settings.fields import (
    ListOf,
    list_setting,
    optional,
    optional_section,
    required,
    required_section,
    section,
    section_list,
    setting,
)
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    OrTemplate,
    SecretText,
    Size,
    Text,
    Unless,
    Words,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

_BY_CLIENT: Final = "the client has its own"
_KAFKA_PORT: Final = 9092
_MECHANISMS: Final = {"plain": "PLAIN", "scram_sha_256": "SCRAM-SHA-256", "scram_sha_512": "SCRAM-SHA-512"}


@dataclass(frozen=True, kw_only=True)
class KafkaLogin:
    mechanism: str = setting(Words(_MECHANISMS), "PLAIN", "How.")
    username: str = required(Text("a user name"), "Who.")
    password: Secret = required(SecretText(), "The password for it, or `file://PATH` with it.")


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Accepted as EMQX has it, without a meaning here: the client's own are used."""

    sndbuf: int = ignored(Size(1), 1024**2, _BY_CLIENT)
    recbuf: int = ignored(Size(1), 1024**2, _BY_CLIENT)
    nodelay: bool = ignored(Boolean(), True, _BY_CLIENT)
    tcp_keepalive: str | None = ignored(Unless(Text("three numbers with commas between"), "none"), None, _BY_CLIENT)


@dataclass(frozen=True, kw_only=True)
class KafkaConnectorConfig(ConnectorConfig):
    bootstrap_hosts: tuple[str, ...] = required(
        ServerAddresses(), "Brokers from which the others are learned (port 9092)."
    )
    authentication: KafkaLogin | None = optional_section(
        KafkaLogin, "Who connects; `none` or nothing for no login.", has_switch=True
    )
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the brokers.", name="ssl", has_switch=True)
    connect_timeout: float = setting(Duration(0.001), 5.0, "How long a connection may take.")
    metadata_request_timeout: float = ignored(Duration(), 5.0, "the client asks again until a message is given up")
    min_metadata_refresh_interval: float = ignored(Duration(), 3.0, "the client has a pause of its own")
    socket_opts: SocketOptions = section(SocketOptions, "Options of its sockets.")

    @property
    def servers(self) -> tuple[Address, ...]:
        return tuple(map(ServerAddress(_KAFKA_PORT).convert, self.bootstrap_hosts))

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return tuple((each.host, each.port) for each in self.servers)


@dataclass(frozen=True, kw_only=True)
class KafkaMessage:
    key: str = setting(RowTemplate(), "${.clientid}", "Template of the key.")
    value: str = setting(SentTemplate(), "${.}", "Template of the value.")
    timestamp: str = setting(
        RowTemplate(), "${.timestamp}", "Template of its time in ms since the epoch; what is no number is now."
    )


@dataclass(frozen=True, kw_only=True)
class KafkaHeader:
    kafka_ext_header_key: str = required(Text("a name without placeholders", r"[^$]+"), "Its name.")
    kafka_ext_header_value: str = required(SentTemplate(), "Template of its value.")


@dataclass(frozen=True, kw_only=True)
class KafkaBuffer:
    """Where EMQX keeps what waits; here that is the storage."""

    mode: str = ignored(Choice("memory", "disk", "hybrid"), "memory", WAITS)
    per_partition_limit: int = ignored(Size(1), 2 * 1024**3, WAITS)
    segment_bytes: int = ignored(Size(1), 100 * 1024**2, WAITS)
    memory_overload_protection: bool = ignored(Boolean(), False, WAITS)


@dataclass(frozen=True, kw_only=True)
class KafkaParameters:
    topic: str = required(RowTemplate("a topic, which may be a template", r"(?s).*\S.*"), "Template of the topic.")
    message: KafkaMessage = section(KafkaMessage, "The message.")
    kafka_headers: str | None = optional(
        RowTemplate("one placeholder, as in ${headers}", r"\$\{[^}]*\}"),
        "Headers that a row has: an object, or a list of `{key, value}`; of another value, none.",
    )
    kafka_header_value_encode_mode: str = setting(
        Choice("none", "json"), "none", "Whether values of `kafka_headers` are JSON, or texts as they are."
    )
    kafka_ext_headers: tuple[KafkaHeader, ...] = section_list(KafkaHeader, "Its headers.")
    compression: str = setting(
        Words({"no_compression": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}),
        "none",
        "Compression of messages.",
    )
    partition_strategy: str = setting(
        Words({"random": "random", "key_dispatch": "key"}),
        "random",
        "Which partition a message goes to: any, or that of its key, as Java's client chooses it.",
    )
    required_acks: str = setting(
        Words({"all_isr": "all", "leader_only": "leader", "none": "none"}),
        "all",
        "Who must have a message: all replicas in step, the leader, or no broker; with the last two, rows may be lost.",
    )
    max_batch_bytes: int = setting(Size(1, 2**31 - 1), 896 * 1024, "Bytes of a request for a partition, about.")
    max_linger_time: float = setting(
        Duration(0.0, 900.0), 0.0, "How long a request waits for more messages of its batch; 0 is the client's choice."
    )
    max_linger_bytes: int = ignored(Size(1), 10 * 1024**2, "a request goes out with max_batch_bytes")
    max_inflight: int = setting(
        Integer(1), 10, "Requests of a connection that may wait for their answers; with `all_isr`, 5 at most."
    )
    query_mode: str = setting(
        Choice("async", "sync"), "async", "`sync` has one request at a time wait for its answer, as `max_inflight = 1`."
    )
    partition_count_refresh_interval: float = setting(
        Duration(1.0, 3600.0), 60.0, "How often it is asked how many partitions there are."
    )
    sync_query_timeout: float = ignored(Duration(), 5.0, "rows wait in the storage until their messages are delivered")
    partitions_limit: int | None = ignored(Unless(Integer(1), "all_partitions"), None, "all partitions are used")
    buffer: KafkaBuffer = section(KafkaBuffer, "Accepted as EMQX has it, without a meaning here.")


@dataclass(frozen=True, kw_only=True)
class KafkaAction(ActionConfig):
    parameters: KafkaParameters = required_section(KafkaParameters, "The message.")


@dataclass(frozen=True, kw_only=True)
class MqttConnectorConfig(ServerConnectorConfig):
    server: Address = required(ServerAddress(1883), "Where it is.")
    clientid_prefix: str = setting(AnyText(), "", "What client ids begin with.")
    max_inflight: int = setting(
        Integer(1, 65_535), 32, "Messages of a connection that may wait for their acknowledgement."
    )
    keepalive: float = setting(Duration(1.0, 65_535.0), 300.0, "How often a silent connection is looked at.")
    proto_ver: str = setting(
        Choice("v3", "v4", "v5"),
        "v5",
        "MQTT 3.1, 3.1.1 or 5. EMQX has `v4` by default; only by `v5` messages have properties, and the other broker "
        "says which ones it refuses.",
    )
    bridge_mode: bool = setting(Boolean(), False, "Whether it connects as a bridge does, which `v5` does not have.")
    clean_start: bool = ignored(Boolean(), True, "actions subscribe to nothing, and sources keep their sessions")
    retry_interval: float = ignored(Duration(), 15.0, "a message is sent again when a lost connection is made again")
    reconnect_interval: float = ignored(Duration(), 15.0, "a lost connection is made again after 1 second, later 5")
    mode: str = ignored(Choice("cluster_shareload"), "cluster_shareload", "there is no cluster")
    pool_size: int = ignored(Integer(1), 8, ONE_CONNECTION)
    static_clientids: tuple[str, ...] = list_setting(
        ListOf(Text("none, as client ids are made of clientid_prefix", r"(?!)")),
        (),
        "Accepted empty only: client ids are made of `clientid_prefix`.",
    )

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.server.host, self.server.port),)


@dataclass(frozen=True, kw_only=True)
class MqttParameters:
    topic: str = required(RowTemplate("a template of a topic", r"(?s).*\S.*"), "Template of the topic.")
    qos: int | str = setting(OrTemplate(Integer(0, 2), "${qos}"), 1, "Quality of service; null is 0.")
    retain: bool | str = setting(
        OrTemplate(Boolean(), "${flags.retain}"), False, "Whether the broker keeps each message; null is false."
    )
    payload: str | None = optional(SentTemplate(), "Template of the payload; without, the row as JSON.")


@dataclass(frozen=True, kw_only=True)
class MqttAction(ActionConfig):
    parameters: MqttParameters = required_section(MqttParameters, "The message.")
