"""The settings of connections to SQL databases, which authentication and authorization share."""

from dataclasses import dataclass
from typing import ClassVar, Final

from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, optional_section, required, setting
from heliograph.settings.kinds import Boolean, Duration, Integer, SecretText, Text
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

_DATABASE: Final = Text("the name of a database")
_USER: Final = Text("a user name")
#: The kind of the setting `query`.
QUERY: Final = Text('a query, as in "SELECT ... FROM ... WHERE username = ${username}"')


@dataclass(frozen=True, kw_only=True)
class SqlConnection:
    """Address, credentials and timeout of a database; each kind of database has a class of its own.

    Attributes:
        dialect: What the placeholders of a query become; see `access.templates.sql`.
    """

    dialect: ClassVar[str]

    server: Address
    database: str = required(_DATABASE, "The database.")
    username: str
    password: Secret | None = optional(SecretText(), "The password for it, or `file://PATH` with it.")
    pool_size: int = setting(Integer(1, 1000), 8, "Connections at most.")
    query_timeout: float = setting(
        Duration(0.001), 5.0, "How long an answer may take, the wait for a connection included."
    )
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the server.", name="ssl", has_switch=True)
    query: str


@dataclass(frozen=True, kw_only=True)
class PostgresqlConnection(SqlConnection):
    dialect: ClassVar[str] = "pg"

    server: Address = required(ServerAddress(5432), "Where PostgreSQL is.")
    username: str = required(_USER, "Who connects.")
    disable_prepared_statements: bool = setting(
        Boolean(),
        False,
        "Whether the query is sent whole each time, with its parameters apart; for PgBouncer and its like.",
    )


@dataclass(frozen=True, kw_only=True)
class MysqlConnection(SqlConnection):
    dialect: ClassVar[str] = "format"

    server: Address = required(ServerAddress(3306), "Where MySQL or MariaDB is.")
    username: str = setting(_USER, "root", "Who connects.")
