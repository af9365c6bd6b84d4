"""The source `redis`: topics that a client may use, in a hash."""

from heliograph.access.acl.topic_lists import rules_of_hash
from heliograph.access.authorization.interface import SourceSurroundings
from heliograph.access.authorization.rows_source import Rows, RowsSource
from heliograph.access.backends.redis import Redis
from heliograph.access.templates import Template, client_values
from heliograph.access.templates.template import warn_of_unknown
from heliograph.access.templates.values import QUERY_NAMES
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import RedisSourceConfig


class RedisSource(RowsSource[str]):
    def __init__(self, settings: RedisSourceConfig, surroundings: SourceSurroundings) -> None:
        super().__init__(settings.type, surroundings)
        self._key = Template(settings.cmd.key, QUERY_NAMES)
        self._redis = Redis(f"authorization:{settings.type}", settings, surroundings.backends)
        self.backend = self._redis.pool
        self._command = settings.cmd
        warn_of_unknown(self._redis.pool.name, self._key.unknown)

    def question(self, client: ClientInfo) -> str:
        return self._key.render(client_values(client))

    async def rows(self, question: str) -> Rows:
        return list(rules_of_hash(await self._redis.fields(self._command, question)))


def make(settings: RedisSourceConfig, surroundings: SourceSurroundings) -> RedisSource:
    return RedisSource(settings, surroundings)
