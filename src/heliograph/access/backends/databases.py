"""From settings to SQL databases: which module asks those of a kind. It is loaded with its library when needed."""

from collections.abc import Collection
from typing import Any

from heliograph.access.backends.live import Backends
from heliograph.access.backends.sql import SqlBackend
from heliograph.config.backends.sql import MysqlConnection, PostgresqlConnection


def sql_backend(
    name: str, settings: MysqlConnection | PostgresqlConnection, names: Collection[str], backends: Backends
) -> SqlBackend[Any]:
    """A database that is not started; `TemplateError` if the query cannot be used."""
    if isinstance(settings, MysqlConnection):
        from heliograph.access.backends.mysql import Mysql

        return Mysql(name, settings, names, backends)
    from heliograph.access.backends.postgresql import Postgresql

    return Postgresql(name, settings, names, backends)
