"""The source `ldap`: topics and rules in the attributes of an entry."""

from heliograph.access.acl.topic_lists import allowed, rules_in_json
from heliograph.access.authorization.interface import SourceSurroundings
from heliograph.access.authorization.rows_source import Rows, RowsSource
from heliograph.access.backends.ldap import Ldap, LdapSearch
from heliograph.access.templates import client_values
from heliograph.access.templates.values import QUERY_NAMES
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import LdapSourceConfig


class LdapSource(RowsSource[tuple[str, str]]):
    def __init__(self, settings: LdapSourceConfig, surroundings: SourceSurroundings) -> None:
        super().__init__(settings.type, surroundings)
        self._search = LdapSearch(settings, QUERY_NAMES)
        self._ldap = Ldap(f"authorization:{settings.type}", settings, surroundings.backends)
        self.backend = self._ldap.pool
        self._settings = settings

    def question(self, client: ClientInfo) -> tuple[str, str]:
        return self._search.render(client_values(client))

    async def rows(self, question: tuple[str, str]) -> Rows:
        """The topics for both, those to publish to and to subscribe to, then the rules."""
        settings = self._settings
        named = {
            "all": settings.all_attribute,
            "publish": settings.publish_attribute,
            "subscribe": settings.subscribe_attribute,
        }
        entry = await self._ldap.find(*question, [*named.values(), settings.acl_rule_attribute])
        if entry is None:
            return []
        topics = [row for action, name in named.items() for row in allowed(action, entry.values(name))]
        return [*topics, *rules_in_json(entry.values(settings.acl_rule_attribute))]


def make(settings: LdapSourceConfig, surroundings: SourceSurroundings) -> LdapSource:
    return LdapSource(settings, surroundings)
