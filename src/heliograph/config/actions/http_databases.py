"""Settings of connectors and actions of databases with an HTTP interface: `clickhouse`, `influxdb`, `elasticsearch`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.http import BaseUrl
from heliograph.config.actions.interface import (
    ActionConfig,
    ConnectorConfig,
    RowTemplate,
    SentTemplate,
    ServerConnectorConfig,
    ignored,
)
from heliograph.hocon.values import Content
from heliograph.settings.addresses import ServerAddress, url_address
from heliograph.settings.fields import optional, optional_section, required, required_section, setting
from heliograph.settings.influxdb import EXAMPLE, parse_lines
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    RefusedError,
    SecretText,
    Text,
    detailed,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

_DATABASE: Final = Text("the name of a database")
_PASSWORD: Final = "The password for it, or `file://PATH` with it."


@dataclass(frozen=True, kw_only=True)
class ClickhouseConnectorConfig(ServerConnectorConfig):
    url: str = required(BaseUrl(), "Where it is, such as `http://127.0.0.1:8123`.")
    database: str = setting(_DATABASE, "default", "The database.")
    connect_timeout: float = ignored(Duration(), 15.0, "request and answer have one limit of time")
    pool_size: int = ignored(Integer(1), 8, "one connection of each action keeps the order of its rows")

    def __post_init__(self) -> None:
        if "@" in self.url:
            raise RefusedError("has a login: give username and password", "url")

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return (url_address(self.url),)


@dataclass(frozen=True, kw_only=True)
class ClickhouseParameters:
    sql: str = required(
        RowTemplate(
            "a statement as in \"INSERT INTO t (topic, qos) VALUES ('${topic}', ${qos})\"",
            r"(?is)\s*INSERT\s+INTO\s[^$]*?\bVALUES\s*\(.*\$\{.*\)\s*;?\s*",
        ),
        "An INSERT with the values of one row; several rows are sent in one statement. In quotes values are escaped, "
        "elsewhere a text gets quotes.",
    )
    batch_value_separator: str = setting(AnyText(), ", ", "What stands between two rows.")
    undefined_vars_as_null: bool = ignored(Boolean(), False, "outside quotes, what a row lacks is NULL")


@dataclass(frozen=True, kw_only=True)
class ClickhouseAction(ActionConfig):
    parameters: ClickhouseParameters = required_section(ClickhouseParameters, "The statement.")


@dataclass(frozen=True, kw_only=True)
class InfluxdbConnection:
    influxdb_type: str = required(Choice("influxdb_api_v1", "influxdb_api_v2"), "Whose API is spoken.")
    database: str | None = optional(_DATABASE, "Of version 1: the database.")
    username: str | None = optional(Text("a user name"), "Of version 1: who connects.")
    password: Secret | None = optional(SecretText(), f"Of version 1: {_PASSWORD[0].lower()}{_PASSWORD[1:]}")
    org: str | None = optional(Text("the name of an organization"), "Of version 2: the organization.")
    bucket: str | None = optional(Text("the name of a bucket"), "Of version 2: the bucket.")
    token: Secret | None = optional(
        SecretText(), "Of version 2: the token that may write to it, or `file://PATH` with it."
    )

    def __post_init__(self) -> None:
        of_v1, of_v2 = ("database", "username", "password"), ("org", "bucket", "token")
        is_v1 = self.influxdb_type == "influxdb_api_v1"
        for name in ("database",) if is_v1 else of_v2:
            if getattr(self, name) is None:
                raise RefusedError(f"is missing: {self.influxdb_type} needs it", name)
        for name in of_v2 if is_v1 else of_v1:
            if getattr(self, name) is not None:
                raise RefusedError(f"is not of {self.influxdb_type}", name)


@dataclass(frozen=True, kw_only=True)
class InfluxdbConnectorConfig(ConnectorConfig):
    server: Address = required(ServerAddress(8086), "Where the server is.")
    parameters: InfluxdbConnection = required_section(InfluxdbConnection, "Its API, and who writes to what.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the server.", name="ssl", has_switch=True)
    pool_size: int = ignored(Integer(1), 8, "one connection of each action keeps the order of its rows")
    max_inactive: float = ignored(Duration(), 10.0, "connections are kept while rows come")

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.server.host, self.server.port),)


class WriteSyntax(SentTemplate):
    """Lines of InfluxDB's line protocol, with placeholders."""

    def __init__(self) -> None:
        super().__init__(f'lines as in "{EXAMPLE}"')

    def convert(self, value: Content) -> str:
        """The text, of which each line was taken apart once."""
        text = super().convert(value)
        detailed(parse_lines, text)
        return text


@dataclass(frozen=True, kw_only=True)
class InfluxdbParameters:
    write_syntax: str = required(WriteSyntax(), "Lines of the line protocol that a row becomes.")
    precision: str = setting(Choice("ns", "us", "ms", "s"), "ms", "The unit of the times in them.")


@dataclass(frozen=True, kw_only=True)
class InfluxdbAction(ActionConfig):
    parameters: InfluxdbParameters = required_section(InfluxdbParameters, "The points.")


@dataclass(frozen=True, kw_only=True)
class ElasticsearchLogin:
    username: str = required(Text("a user name"), "Who connects.")
    password: Secret = required(SecretText(), _PASSWORD)


@dataclass(frozen=True, kw_only=True)
class ElasticsearchConnectorConfig(ConnectorConfig):
    server: Address = required(ServerAddress(9200), "Where the server is.")
    authentication: ElasticsearchLogin | None = optional_section(
        ElasticsearchLogin, "Who connects; `none` or nothing for no login.", has_switch=True
    )
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the server.", name="ssl", has_switch=True)
    pool_size: int = ignored(Integer(1), 8, "one connection of each action keeps the order of its rows")
    pool_type: str = ignored(
        Choice("random", "hash"), "random", "one connection of each action keeps the order of its rows"
    )
    connect_timeout: float = ignored(Duration(), 15.0, "request and answer have one limit of time")
    enable_pipelining: int = ignored(Integer(1), 100, "one connection of each action keeps the order of its rows")
    max_inactive: float = ignored(Duration(), 10.0, "connections are kept while rows come")

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.server.host, self.server.port),)


@dataclass(frozen=True, kw_only=True)
class ElasticsearchParameters:
    action: str = required(Choice("create", "update", "delete"), "What is done with a document.")
    index: str = required(RowTemplate("a template of an index", r"(?s).*\S.*"), "Template of the index.")
    id: str | None = optional(RowTemplate(), "Template of the document's id; `update` and `delete` need it.")
    doc: str | None = optional(
        SentTemplate(), "Template of the document, which is a JSON object; without, the row. `delete` has none."
    )
    routing: str | None = optional(RowTemplate(), "Template of the routing.")
    overwrite: bool = setting(
        Boolean(), True, "Of `create`: whether a document with the id is replaced; otherwise it is kept."
    )
    doc_as_upsert: bool = setting(Boolean(), False, "Of `update`: whether a document that is not there is created.")
    require_alias: bool = setting(Boolean(), False, "Whether the index must be an alias.")
    max_retries: int = setting(Integer(0, 99), 2, "How often a request is tried again before its batch is.")

    def __post_init__(self) -> None:
        if self.action != "create" and self.id is None:
            raise RefusedError(f"is missing: {self.action} needs it", "id")


@dataclass(frozen=True, kw_only=True)
class ElasticsearchAction(ActionConfig):
    parameters: ElasticsearchParameters = required_section(ElasticsearchParameters, "The document.")
