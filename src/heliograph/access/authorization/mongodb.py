"""The source `mongodb`: rules in documents."""

from heliograph.access.authorization.interface import SourceSurroundings
from heliograph.access.authorization.rows_source import Rows, RowsSource
from heliograph.access.backends.mongodb import MongoDb
from heliograph.access.templates import client_values
from heliograph.access.templates.documents import DocumentTemplate
from heliograph.access.templates.template import warn_of_unknown
from heliograph.access.templates.values import QUERY_NAMES
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import MongoSourceConfig


class MongoSource(RowsSource[tuple[str, ...]]):
    def __init__(self, settings: MongoSourceConfig, surroundings: SourceSurroundings) -> None:
        super().__init__(settings.type, surroundings)
        self._filter = DocumentTemplate(dict(settings.filter), QUERY_NAMES)
        warn_of_unknown(f"the filter of {self.type}", self._filter.unknown)
        self._mongodb = MongoDb(f"authorization:{settings.type}", settings, surroundings.backends)
        self.backend = self._mongodb.pool
        self._settings = settings

    def question(self, client: ClientInfo) -> tuple[str, ...]:
        values = client_values(client)
        return tuple(values.get(name, "") for name in self._filter.names)

    async def rows(self, question: tuple[str, ...]) -> Rows:
        query = self._filter.query(dict(zip(self._filter.names, question, strict=True)))
        return await self._mongodb.find(query, self._settings.limit, self._settings.skip)


def make(settings: MongoSourceConfig, surroundings: SourceSurroundings) -> MongoSource:
    return MongoSource(settings, surroundings)
