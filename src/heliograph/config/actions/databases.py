"""Settings of connectors and actions of the types `pgsql` (and those that speak its protocol), `mysql` and `redis`."""

from dataclasses import dataclass
from typing import Any, Final

from heliograph.config.actions.interface import (
    ONE_CONNECTION,
    ActionConfig,
    ConnectorConfig,
    RowTemplate,
    ServerConnectorConfig,
    ignored,
)
from heliograph.hocon.values import Content
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, optional_section, required, required_section, setting
from heliograph.settings.kinds import Boolean, Choice, Integer, Kind, RefusedError, SecretText, Text
from heliograph.settings.redis import RedisPlace
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

_DATABASE: Final = Text("the name of a database")


def _sql() -> Any:
    return required(
        RowTemplate('a statement with placeholders, as in "INSERT INTO t (topic) VALUES (${topic})"', r"(?s).*\$\{.*"),
        "The statement for each row; its placeholders become parameters, never text, so they stand without quotes.",
    )


@dataclass(frozen=True, kw_only=True)
class PgsqlConnectorConfig(ServerConnectorConfig):
    server: Address = required(ServerAddress(5432), "Where the server is.")
    database: str = required(_DATABASE, "The database.")
    pool_size: int = ignored(Integer(1), 8, ONE_CONNECTION)
    disable_prepared_statements: bool = setting(
        Boolean(), False, "Whether no statement is prepared, as PgBouncer needs it that pools transactions."
    )

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.server.host, self.server.port),)


@dataclass(frozen=True, kw_only=True)
class CockroachdbConnectorConfig(PgsqlConnectorConfig):
    server: Address = required(ServerAddress(26257), "Where CockroachDB is.")


@dataclass(frozen=True, kw_only=True)
class MysqlConnectorConfig(ServerConnectorConfig):
    server: Address = required(ServerAddress(3306), "Where MySQL or MariaDB is.")
    database: str = required(_DATABASE, "The database.")
    username: str | None = setting(Text("a user name"), "root", "Who connects.")
    pool_size: int = ignored(Integer(1), 8, ONE_CONNECTION)

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.server.host, self.server.port),)


@dataclass(frozen=True, kw_only=True)
class SqlParameters:
    sql: str = _sql()


@dataclass(frozen=True, kw_only=True)
class PgsqlAction(ActionConfig):
    parameters: SqlParameters = required_section(SqlParameters, "The statement.")


@dataclass(frozen=True, kw_only=True)
class MysqlParameters(SqlParameters):
    undefined_vars_as_null: bool = ignored(Boolean(), False, "a value that a row lacks is NULL")


@dataclass(frozen=True, kw_only=True)
class MysqlAction(ActionConfig):
    parameters: MysqlParameters = required_section(MysqlParameters, "The statement.")


@dataclass(frozen=True, kw_only=True)
class RedisParameters(RedisPlace):
    username: str | None = optional(Text("a user name"), "Who connects.")
    password: Secret | None = optional(SecretText(), "The password for it, or `file://PATH` with it.")
    pool_size: int = ignored(Integer(1), 8, ONE_CONNECTION)


@dataclass(frozen=True, kw_only=True)
class RedisConnectorConfig(ConnectorConfig):
    parameters: RedisParameters = required_section(RedisParameters, "Where it is.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the servers.", name="ssl", has_switch=True)

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return tuple((each.host, each.port) for each in self.parameters.addresses)


class CommandTemplate(Kind[tuple[str, ...]]):
    """A command, each argument of which is a template."""

    expected = 'a list of texts, as in [LPUSH, messages, "${payload}"]'

    def convert(self, value: Content) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise RefusedError
        words = tuple(RowTemplate().convert(item.value) for item in value)
        if not words[0].strip() or "${" in words[0]:
            raise RefusedError("the command itself cannot come from a row")
        return words


@dataclass(frozen=True, kw_only=True)
class RedisActionParameters:
    command_template: tuple[str, ...] = required(CommandTemplate(), "The command; its arguments are templates.")
    redis_type: str = ignored(Choice("single", "sentinel", "cluster"), "single", "its connector says it")


@dataclass(frozen=True, kw_only=True)
class RedisAction(ActionConfig):
    parameters: RedisActionParameters = required_section(RedisActionParameters, "The command.")
