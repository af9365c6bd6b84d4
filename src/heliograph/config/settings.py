"""Every setting of Heliograph: the frozen dataclasses that the program reads are the schema of the file.

A field's name is its name in the file, its default is the default, and its kind says what a file may hold. Names and
meanings are EMQX 5's where it has them. Durations are seconds, sizes are bytes, None means infinity or disabled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.roots import ActionSettings, ConnectorSettings
from heliograph.config.address_limits import AddressLimits
from heliograph.config.authentication import AUTHENTICATORS, AuthenticationSettings, AuthenticatorConfig
from heliograph.config.authorization import Authorization
from heliograph.config.backup import BackupConfig
from heliograph.config.kinds import SizeOrPart
from heliograph.config.listeners import Listeners
from heliograph.config.log import LogConfig
from heliograph.config.management import ApiKeyConfig, DashboardConfig, ManagementConfig
from heliograph.config.message_policies import MessageTransformationConfig, SchemaValidationConfig
from heliograph.config.monitoring import (
    AlarmConfig,
    ConnCongestion,
    DiagnoseConfig,
    OverloadProtection,
    SlowSubs,
    SysmonConfig,
    TopicMetric,
)
from heliograph.config.mqtt import BrokerConfig, ForceShutdown, MqttConfig
from heliograph.config.opentelemetry import OpenTelemetryConfig
from heliograph.config.pipeline import PipelineConfig
from heliograph.config.prometheus import PrometheusConfig
from heliograph.config.retainer import RetainerConfig
from heliograph.config.rules import RuleEngineConfig
from heliograph.config.schemas import SchemaRegistryConfig
from heliograph.config.services import (
    AutoSubscribe,
    Banned,
    Delayed,
    EventMessage,
    FlappingDetect,
    RewriteRule,
    SysTopics,
)
from heliograph.config.sources.roots import MessageSources
from heliograph.config.storage import DurableSessionsConfig, DurableStorageConfig, SharedGroupsConfig
from heliograph.settings.fields import How, overlays, section, section_list, setting, variants
from heliograph.settings.kinds import AnyText, Duration, Integer, Text, Unless
from heliograph.settings.outbound import OutboundConfig
from heliograph.settings.units import Percentage

DEFAULT_ZONE: Final = "default"


@dataclass(frozen=True, slots=True)
class NodeConfig:
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
    tls_dir: str = setting(
        Text("a directory"),
        "tls",
        "Directory of certificates and keys that operators of the HTTP API may name; a relative one lies in "
        "`node.data_dir`. Callers that may change the configuration name any file.",
        how=How.LIVE,
    )
    control_group: str = setting(
        AnyText("the name of a group of users, or empty"),
        "",
        "Group whose users may ask the node over its control socket (`heliograph ctl`), besides the user that it runs "
        "as. They may then enter the data directory, and read nothing in it.",
        how=How.LIVE,
    )
    number: int | None = setting(
        Unless(Integer(0, 32_767), "auto"),
        None,
        "Number of the node, a part of every message id, and no other node's that writes to the same place. `auto`: "
        "chosen by chance at the first start, and kept in the data directory.",
    )
    memory_limit: int | Percentage | None = setting(
        Unless(SizeOrPart(64 * 1024 * 1024), "infinity"),
        Percentage(70),
        "Memory that the process may have resident, or its part of the machine's memory or of the cgroup's limit, "
        "whichever is less; see docs/memory.md for what is done as it fills.",
        how=How.LIVE,
    )
    max_clock_jump: float = setting(
        Duration(1.0, 86_400.0),
        60.0,
        "How far the wall clock may jump ahead and be followed at once; one that jumps further is followed after it "
        "stayed there for as long.",
        how=How.LIVE,
    )


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone: settings for the listeners that name it; what it leaves out is as the root settings say."""

    mqtt: MqttConfig = section(MqttConfig, "The MQTT protocol in this zone.", how=How.LIVE)
    force_shutdown: ForceShutdown = section(ForceShutdown, "Peers that do not read in this zone.", how=How.LIVE)
    flapping_detect: FlappingDetect = section(FlappingDetect, "Clients of this zone that come and go.", how=How.LIVE)
    conn_congestion: ConnCongestion = section(ConnCongestion, "Clients of this zone that do not read.", how=How.LIVE)
    overload_protection: OverloadProtection = section(
        OverloadProtection, "What this zone gives up under overload.", how=How.LIVE
    )
    durable_sessions: DurableSessionsConfig = section(
        DurableSessionsConfig,
        "Sessions of this zone that outlive the broker; `enable` is all that a zone has of its own.",
        how=How.RESTART,
    )


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration of a node; without a file, every field has its default."""

    node: NodeConfig = section(NodeConfig, "The node.", how=How.RESTART)
    listeners: Listeners = section(Listeners, "Where clients connect.", how=How.LISTENER_REPLACED)
    mqtt: MqttConfig = section(MqttConfig, "The MQTT protocol.", how=How.LIVE)
    zones: Mapping[str, Zone] = overlays(
        Zone, "Named sets of settings, for the listeners that name them.", how=How.LIVE
    )
    force_shutdown: ForceShutdown = section(ForceShutdown, "Peers that do not read what they are sent.", how=How.LIVE)
    authentication: tuple[AuthenticatorConfig, ...] = variants(
        AUTHENTICATORS,
        "Authenticators, asked one after the other about each client of a listener that has none of its own; without "
        "any, every client is let in.",
        how=How.NEW_CONNECTIONS,
    )
    authentication_settings: AuthenticationSettings = section(
        AuthenticationSettings, "What holds for all authenticators.", how=How.LIVE
    )
    authorization: Authorization = section(Authorization, "Who may publish and subscribe to what.", how=How.LIVE)
    broker: BrokerConfig = section(BrokerConfig, "Routing.", how=How.LIVE)
    retainer: RetainerConfig = section(RetainerConfig, "Retained messages.", how=How.LIVE)
    durable_storage: DurableStorageConfig = section(DurableStorageConfig, "Stored messages.", how=How.LIVE)
    durable_sessions: DurableSessionsConfig = section(
        DurableSessionsConfig, "Sessions that outlive the broker.", how=How.LIVE
    )
    durable_shared_groups: SharedGroupsConfig = section(
        SharedGroupsConfig, "Shared groups whose messages come from storage.", how=How.LIVE
    )
    backup: BackupConfig = section(BackupConfig, "Backups that the node makes by itself.", how=How.LIVE)
    log: LogConfig = section(LogConfig, "The log.", how=How.LIVE)
    sys_topics: SysTopics = section(SysTopics, "What the broker publishes about itself.", how=How.LIVE)
    slow_subs: SlowSubs = section(SlowSubs, "Receivers and topics whose messages take longest.", how=How.LIVE)
    topic_metrics: tuple[TopicMetric, ...] = section_list(
        TopicMetric, "Topics whose messages are counted, at most 512.", how=How.LIVE
    )
    event_message: EventMessage = section(EventMessage, "Events that are published as messages.", how=How.LIVE)
    delayed: Delayed = section(Delayed, "Messages that are published later.", how=How.LIVE)
    rewrite: tuple[RewriteRule, ...] = section_list(
        RewriteRule, "Rules that give messages and subscriptions another topic.", how=How.LIVE
    )
    pipeline: PipelineConfig = section(PipelineConfig, "The pipeline that the node runs beside itself.", how=How.LIVE)
    schema_registry: SchemaRegistryConfig = section(SchemaRegistryConfig, "Schemas by name.", how=How.LIVE)
    schema_validation: SchemaValidationConfig = section(
        SchemaValidationConfig, "What messages must look like to be published.", how=How.LIVE
    )
    message_transformation: MessageTransformationConfig = section(
        MessageTransformationConfig, "What is made of messages before they are published.", how=How.LIVE
    )
    auto_subscribe: AutoSubscribe = section(
        AutoSubscribe, "What every client is subscribed to.", how=How.NEW_CONNECTIONS
    )
    opentelemetry: OpenTelemetryConfig = section(
        OpenTelemetryConfig, "Traces, metrics and the log for an OpenTelemetry collector.", how=How.LIVE
    )
    diagnose: DiagnoseConfig = section(DiagnoseConfig, "What is recorded to find faults.", how=How.LIVE)
    address_limits: AddressLimits = section(
        AddressLimits, "What clients of one address may do before they are known.", how=How.LIVE
    )
    banned: Banned = section(Banned, "Who may not connect.", how=How.LIVE)
    rule_engine: RuleEngineConfig = section(RuleEngineConfig, "Rules that run in the broker.", how=How.LIVE)
    outbound: OutboundConfig = section(
        OutboundConfig, "Servers that the node and its processes may connect to.", how=How.LIVE
    )
    connectors: ConnectorSettings = section(
        ConnectorSettings,
        "Servers and places to which actions bring the rows of rules, and from which sources take messages.",
        how=How.LIVE,
    )
    actions: ActionSettings = section(
        ActionSettings, "What the pipeline does with the rows of the rules that name it.", how=How.LIVE
    )
    sources: MessageSources = section(MessageSources, "Messages that come in from elsewhere.", how=How.LIVE)
    flapping_detect: FlappingDetect = section(
        FlappingDetect, "Clients that connect and disconnect all the time.", how=How.LIVE
    )
    management: ManagementConfig = section(
        ManagementConfig, "The process beside the node that serves the HTTP API.", how=How.LIVE
    )
    dashboard: DashboardConfig = section(DashboardConfig, "The HTTP API, and who logs in to it.", how=How.LIVE)
    prometheus: PrometheusConfig = section(
        PrometheusConfig, "Metrics for Prometheus, and a push gateway.", how=How.LIVE
    )
    api_key: ApiKeyConfig = section(ApiKeyConfig, "Keys of programs that call the HTTP API.", how=How.LIVE)
    alarm: AlarmConfig = section(AlarmConfig, "What is done with alarms.", how=How.LIVE)
    sysmon: SysmonConfig = section(SysmonConfig, "What is watched of the machine and the process.", how=How.LIVE)
    conn_congestion: ConnCongestion = section(ConnCongestion, "Clients that do not read.", how=How.LIVE)
    overload_protection: OverloadProtection = section(
        OverloadProtection, "What is given up while the node is overloaded.", how=How.LIVE
    )


def zone_of(config: Config, name: str) -> Zone:
    """The settings of a zone; those of the root for `default` where the file has no zone of that name."""
    zone = config.zones.get(name)
    if zone is None:
        return Zone(
            config.mqtt,
            config.force_shutdown,
            config.flapping_detect,
            config.conn_congestion,
            config.overload_protection,
            config.durable_sessions,
        )
    return zone


def levels_max(config: Config) -> int:
    """The most levels that a topic may have in any zone."""
    return max(mqtt.max_topic_levels for mqtt in (config.mqtt, *(zone.mqtt for zone in config.zones.values())))
