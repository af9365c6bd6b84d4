"""The sources `mysql`, `postgresql`, `mongodb`, `redis` and `ldap`: rules in rows, documents, hashes and entries."""

import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

from heliograph.access.acl.rows import rules_of_rows
from heliograph.access.acl.rules import Rules
from heliograph.access.acl.topic_lists import EntryRules, rules_of_hash
from heliograph.access.authorization.interface import RulesSource, SourceSurroundings
from heliograph.access.backends.databases import database_of
from heliograph.access.backends.ldap import Ldap
from heliograph.access.backends.store import AccessStore
from heliograph.access.templates import client_values
from heliograph.access.templates.values import QUERY_NAMES
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import (
    LdapSourceConfig,
    MongoSourceConfig,
    MysqlSourceConfig,
    PostgresqlSourceConfig,
    RedisSourceConfig,
)
from heliograph.observe.bounded_log import BoundedLog

_log = logging.getLogger(__name__)

RowsSettings: TypeAlias = (
    MysqlSourceConfig | PostgresqlSourceConfig | MongoSourceConfig | RedisSourceConfig | LdapSourceConfig
)


class RowsSource(RulesSource):
    """Gives the rules of rows, in their order; a row that is no rule is logged and left out.

    Args:
        rules_of: The rule objects in a row of the store.
    """

    def __init__(
        self,
        type: str,
        store: AccessStore[Any, Any],
        surroundings: SourceSurroundings,
        rules_of: Callable[[Any], Iterable[object]] = lambda row: (row,),
    ) -> None:
        super().__init__(type)
        self.backend = store.pool
        self._store = store
        self._rules_of = rules_of
        self._answers = surroundings.node_cache.answers()
        self._bad_rows = BoundedLog(_log, surroundings.clock)

    def fetch(self, client: ClientInfo) -> Rules | Awaitable[Rules]:
        question = self._store.question(client_values(client))
        kept = self._answers.find(question)
        return self._fetched(question) if kept is None else self._rules(kept.answer)

    async def _fetched(self, question: Hashable) -> Rules:
        return self._rules(await self._answers.answer(question, lambda: self._asked(question)))

    async def _asked(self, question: Hashable) -> Sequence[object]:
        return [rule for row in await self._store.rows(question) for rule in self._rules_of(row)]

    def _rules(self, rows: Sequence[object]) -> Rules:
        return rules_of_rows(rows, lambda fault: self._bad_rows.warn("%s: %s; it is left out", self.type, fault))


def make(settings: RowsSettings, surroundings: SourceSurroundings) -> RowsSource:
    """Raises `TemplateError` if a query cannot be used."""
    name, type = f"authorization:{settings.type}", settings.type
    if isinstance(settings, LdapSourceConfig):
        rules = EntryRules(settings)
        ldap = Ldap(name, settings, QUERY_NAMES, rules.attributes, surroundings.backends)
        return RowsSource(type, ldap, surroundings, lambda entry: rules.of(entry.values))
    database = database_of(name, settings, QUERY_NAMES, surroundings.backends)
    if isinstance(settings, RedisSourceConfig):
        return RowsSource(type, database, surroundings, rules_of_hash)
    return RowsSource(type, database, surroundings)
