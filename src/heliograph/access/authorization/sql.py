"""The sources `mysql` and `postgresql`: rules in rows of a database."""

from heliograph.access.authorization.interface import SourceSurroundings
from heliograph.access.authorization.rows_source import Rows, RowsSource
from heliograph.access.backends.databases import sql_backend
from heliograph.access.templates import client_values
from heliograph.access.templates.values import QUERY_NAMES
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import MysqlSourceConfig, PostgresqlSourceConfig


class SqlSource(RowsSource[tuple[str, ...]]):
    def __init__(self, settings: MysqlSourceConfig | PostgresqlSourceConfig, surroundings: SourceSurroundings) -> None:
        super().__init__(settings.type, surroundings)
        name = f"authorization:{settings.type}"
        self._database = sql_backend(name, settings, QUERY_NAMES, surroundings.backends)
        self.backend = self._database

    def question(self, client: ClientInfo) -> tuple[str, ...]:
        return tuple(self._database.statement.params(client_values(client)))

    async def rows(self, question: tuple[str, ...]) -> Rows:
        return await self._database.rows(question)


def make(settings: MysqlSourceConfig | PostgresqlSourceConfig, surroundings: SourceSurroundings) -> SqlSource:
    return SqlSource(settings, surroundings)
