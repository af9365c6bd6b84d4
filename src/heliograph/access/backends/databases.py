"""From settings to the database that they name."""

from collections.abc import Collection
from typing import Any, TypeAlias

from heliograph.access.backends.live import Backends
from heliograph.access.backends.mongodb import MongoDb
from heliograph.access.backends.mysql import Mysql
from heliograph.access.backends.postgresql import Postgresql
from heliograph.access.backends.redis import Redis
from heliograph.access.backends.store import AccessStore
from heliograph.config.authentication import RedisAuthenticatorConfig
from heliograph.config.authorization import MongoSourceConfig, RedisSourceConfig
from heliograph.config.backends.mongodb import MongoConnection
from heliograph.config.backends.sql import MysqlConnection, PostgresqlConnection

DatabaseSettings: TypeAlias = (
    MysqlConnection | PostgresqlConnection | MongoConnection | RedisAuthenticatorConfig | RedisSourceConfig
)


def database_of(
    name: str, settings: DatabaseSettings, names: Collection[str], backends: Backends
) -> AccessStore[Any, tuple[str, ...]]:
    """A database that is not started; `TemplateError` if the query cannot be used."""
    if isinstance(settings, MysqlConnection):
        return Mysql(name, settings, names, backends)
    if isinstance(settings, PostgresqlConnection):
        return Postgresql(name, settings, names, backends)
    if isinstance(settings, MongoConnection):
        limit, skip = (settings.limit, settings.skip) if isinstance(settings, MongoSourceConfig) else (1, 0)
        return MongoDb(name, settings, names, backends, limit, skip)
    return Redis(name, settings, settings.cmd, names, backends)
