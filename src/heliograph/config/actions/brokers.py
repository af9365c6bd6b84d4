"""Settings of connectors and actions of the types `kafka_producer` and `mqtt`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.interface import (
    ActionConfig,
    ConnectorConfig,
    RowTemplate,
    SentTemplate,
    ServerConnectorConfig,
    ignored,
)
from heliograph.settings.addresses import ServerAddress, ServerAddresses
from heliograph.settings.fields import (
    optional,
    optional_section,
    required,
    required_section,
    section,
    section_list,
    setting,
)
from heliograph.settings.kinds import AnyText, Boolean, Choice, Duration, Integer, SecretText, Size, Text, Unless, Words
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

_KAFKA_PORT: Final = 9092
_MECHANISMS: Final = {"plain": "PLAIN", "scram_sha_256": "SCRAM-SHA-256", "scram_sha_512": "SCRAM-SHA-512"}


@dataclass(frozen=True, kw_only=True)
class KafkaLogin:
    mechanism: str = setting(Words(_MECHANISMS), "PLAIN", "How.")
    username: str = required(Text("a user name"), "Who.")
    password: Secret = required(SecretText(), "The password for it, or `file://PATH` with it.")


@dataclass(frozen=True, kw_only=True)
class KafkaConnectorConfig(ConnectorConfig):
    bootstrap_hosts: tuple[str, ...] = required(
        ServerAddresses(), "Brokers from which the others are learned (port 9092)."
    )
    authentication: KafkaLogin | None = optional_section(
        KafkaLogin, "Who connects; `none` or nothing for no login.", has_switch=True
    )
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the brokers.", name="ssl", has_switch=True)
    connect_timeout: float = ignored(Duration(), 5.0)
    metadata_request_timeout: float = ignored(Duration(), 5.0)
    min_metadata_refresh_interval: float = ignored(Duration(), 3.0)

    @property
    def servers(self) -> tuple[Address, ...]:
        return tuple(map(ServerAddress(_KAFKA_PORT).convert, self.bootstrap_hosts))

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return tuple((each.host, each.port) for each in self.servers)


@dataclass(frozen=True, kw_only=True)
class KafkaMessage:
    key: str = setting(RowTemplate(), "${.clientid}", "Template of the key.")
    value: str = setting(SentTemplate(), "${.}", "Template of the value.")
    timestamp: str = ignored(RowTemplate(), "${.timestamp}")


@dataclass(frozen=True, kw_only=True)
class KafkaHeader:
    kafka_ext_header_key: str = required(Text("a name without placeholders", r"[^$]+"), "Its name.")
    kafka_ext_header_value: str = required(SentTemplate(), "Template of its value.")


@dataclass(frozen=True, kw_only=True)
class KafkaBuffer:
    """Where EMQX keeps what waits; here that is the storage."""

    mode: str = ignored(Choice("memory", "disk", "hybrid"), "memory")
    per_partition_limit: int = ignored(Size(1), 2 * 1024**3)
    segment_bytes: int = ignored(Size(1), 100 * 1024**2)
    memory_overload_protection: bool = ignored(Boolean(), False)


@dataclass(frozen=True, kw_only=True)
class KafkaParameters:
    topic: str = required(RowTemplate("a topic, which may be a template", r"(?s).*\S.*"), "Template of the topic.")
    message: KafkaMessage = section(KafkaMessage, "The message.")
    kafka_ext_headers: tuple[KafkaHeader, ...] = section_list(KafkaHeader, "Its headers.")
    compression: str = setting(
        Words({"no_compression": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}),
        "none",
        "Compression of messages.",
    )
    partition_strategy: str = ignored(Choice("random", "key_dispatch"), "random")
    required_acks: str = ignored(Choice("all_isr", "leader_only", "none"), "all_isr")
    max_batch_bytes: int = ignored(Size(1), 896 * 1024)
    max_inflight: int = ignored(Integer(1), 10)
    query_mode: str = ignored(Choice("async", "sync"), "async")
    sync_query_timeout: float = ignored(Duration(), 5.0)
    max_linger_time: float = ignored(Duration(), 0.0)
    partitions_limit: int | None = ignored(Unless(Integer(1), "all_partitions"), None)
    partition_count_refresh_interval: float = ignored(Duration(), 60.0)
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
    keepalive: float = ignored(Duration(), 300.0)
    clean_start: bool = ignored(Boolean(), True)
    proto_ver: str = ignored(Choice("v3", "v4", "v5"), "v4")
    bridge_mode: bool = ignored(Boolean(), False)
    retry_interval: float = ignored(Duration(), 15.0)
    reconnect_interval: float = ignored(Duration(), 15.0)
    mode: str = ignored(Choice("cluster_shareload"), "cluster_shareload")
    pool_size: int = ignored(Integer(1), 8)

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.server.host, self.server.port),)


@dataclass(frozen=True, kw_only=True)
class MqttParameters:
    topic: str = required(RowTemplate("a template of a topic", r"(?s).*\S.*"), "Template of the topic.")
    qos: int = setting(Integer(0, 2), 1, "Quality of service; a placeholder is not there.")
    retain: bool = setting(Boolean(), False, "Whether the broker keeps each message; a placeholder is not there.")
    payload: str | None = optional(SentTemplate(), "Template of the payload; without, the row as JSON.")


@dataclass(frozen=True, kw_only=True)
class MqttAction(ActionConfig):
    parameters: MqttParameters = required_section(MqttParameters, "The message.")
