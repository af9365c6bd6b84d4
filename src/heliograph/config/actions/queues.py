"""Settings of connectors and actions of queues: `rabbitmq`, `nats`, and clouds that speak Kafka's protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.brokers import KafkaAction, KafkaConnectorConfig, KafkaLogin
from heliograph.config.actions.interface import (
    ActionConfig,
    RowTemplate,
    SentTemplate,
    ServerConnectorConfig,
    ignored,
)
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import (
    ListOf,
    list_setting,
    optional,
    required,
    required_section,
    section,
    setting,
)
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    RefusedError,
    SecretText,
    Text,
    Texts,
    Words,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

_EVENT_HUB_PORT: Final = 9093
_CONNECTION_STRING: Final = "$ConnectionString"


@dataclass(frozen=True, slots=True)
class SwitchedTls(ClientTls):
    """TLS that is on unless it is switched off."""

    enable: bool = setting(Boolean(), True, "Whether TLS is used.")
    server_name_indication: str = ignored(AnyText(), "auto", "the name is that of the server")
    versions: tuple[str, ...] = list_setting(
        ListOf(Choice("tlsv1.3", "tlsv1.2", "tlsv1.1", "tlsv1")),
        (),
        "Accepted as EMQX has it: both sides take the newest.",
    )


@dataclass(frozen=True, kw_only=True)
class CloudKafkaConnectorConfig(KafkaConnectorConfig):
    """A cluster that asks for a login and TLS."""

    authentication: KafkaLogin = required_section(KafkaLogin, "Who connects.")
    tls: SwitchedTls = section(SwitchedTls, "TLS to the brokers.", name="ssl")


@dataclass(frozen=True, kw_only=True)
class PlainLogin(KafkaLogin):
    mechanism: str = setting(Words({"plain": "PLAIN"}), "PLAIN", "How.")


@dataclass(frozen=True, kw_only=True)
class ConfluentConnectorConfig(CloudKafkaConnectorConfig):
    authentication: PlainLogin = required_section(PlainLogin, "Key and secret of the API, as user and password.")


@dataclass(frozen=True, kw_only=True)
class EventHubLogin(PlainLogin):
    username: str = setting(Text("a user name"), _CONNECTION_STRING, "Who; an Event Hub has this one only.")
    password: Secret = required(SecretText(), "The connection string of the namespace, or `file://PATH` with it.")


@dataclass(frozen=True, kw_only=True)
class EventHubConnectorConfig(CloudKafkaConnectorConfig):
    authentication: EventHubLogin = required_section(EventHubLogin, "The connection string.")

    @property
    def servers(self) -> tuple[Address, ...]:
        return tuple(map(ServerAddress(_EVENT_HUB_PORT).convert, self.bootstrap_hosts))


@dataclass(frozen=True, kw_only=True)
class CloudKafkaAction(KafkaAction):
    local_topic: str = ignored(AnyText(), "", "a rule says which messages")


@dataclass(frozen=True, kw_only=True)
class RabbitmqConnectorConfig(ServerConnectorConfig):
    server: str = setting(
        Text("a host", r"[A-Za-z0-9.\[\]:_-]+"), "localhost", "The host of the broker.", is_place=True
    )
    port: int = setting(Integer(1, 65_535), 5672, "Its port; brokers have 5671 for TLS.", is_place=True)
    username: str | None = required(Text("a user name"), "Who connects.")
    password: Secret | None = required(SecretText(), "The password for it, or `file://PATH` with it.")
    virtual_host: str = setting(Text("the name of a virtual host"), "/", "The virtual host.")
    heartbeat: float = setting(Duration(1.0, 3600.0), 30.0, "How soon a lost connection is noticed.")
    timeout: float = ignored(Duration(), 5.0, "the action has the time of an answer")
    pool_size: int = ignored(Integer(1), 8, "one connection of each action keeps the order of its rows")

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.server, self.port),)


@dataclass(frozen=True, kw_only=True)
class RabbitmqParameters:
    exchange: str = required(
        RowTemplate("a template of an exchange"),
        "Template of the exchange; empty is the one that knows each queue by name.",
    )
    routing_key: str = required(RowTemplate("a template of a routing key"), "Template of the routing key.")
    payload_template: str = setting(SentTemplate(), "", "Template of the body; empty is the row as JSON.")
    delivery_mode: str = setting(
        Choice("non_persistent", "persistent"),
        "non_persistent",
        "Whether durable queues keep it over a restart of the broker.",
    )
    publish_confirmation_timeout: float = setting(
        Duration(0.001), 30.0, "How long the broker may take to confirm messages."
    )
    wait_for_publish_confirmations: bool = ignored(Boolean(), True, "every message is confirmed")


@dataclass(frozen=True, kw_only=True)
class RabbitmqAction(ActionConfig):
    parameters: RabbitmqParameters = required_section(RabbitmqParameters, "The message.")


@dataclass(frozen=True, kw_only=True)
class NatsConnectorConfig(ServerConnectorConfig):
    server: Address = required(ServerAddress(4222), "Where a server is.")
    token: Secret | None = optional(
        SecretText(), "A token in the place of user and password, or `file://PATH` with it."
    )
    connect_timeout: float = setting(Duration(0.001), 5.0, "How long a connection may take.")

    def __post_init__(self) -> None:
        if self.token is not None and self.username is not None:
            raise RefusedError("stands in the place of username and password", "token")

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.server.host, self.server.port),)


@dataclass(frozen=True, kw_only=True)
class NatsParameters:
    subject: str = required(RowTemplate("a template of a subject", r"(?s).*\S.*"), "Template of the subject.")
    payload: str = setting(SentTemplate(), "${.}", "Template of the payload.")
    headers: Mapping[str, str] = setting(Texts(), {}, "Templates of headers, by name.", is_secret=True)
    jetstream: bool = setting(
        Boolean(),
        True,
        "Whether a stream of JetStream has to take each message; without, it is for the subscribers of the moment.",
    )
    ack_timeout: float = setting(Duration(0.001), 30.0, "How long the server may take to acknowledge messages.")


@dataclass(frozen=True, kw_only=True)
class NatsAction(ActionConfig):
    parameters: NatsParameters = required_section(NatsParameters, "The message.")
