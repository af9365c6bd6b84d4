"""The source `built_in_database`: rules of the client id, then of the user name, then of all clients."""

from heliograph.access.acl.rows import rules_of_rows
from heliograph.access.acl.rules import Rule, Rules
from heliograph.access.authorization.interface import RulesSource, SourceSurroundings
from heliograph.access.built_in_rules.record import ALL, CLIENTID, USERNAME
from heliograph.access.built_in_rules.store import BuiltInRules
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import BuiltInDatabaseSourceConfig


def make(settings: BuiltInDatabaseSourceConfig, surroundings: SourceSurroundings) -> RulesSource:
    return BuiltInDatabaseSource(settings.type, surroundings.built_in_rules)


class BuiltInDatabaseSource(RulesSource):
    """Rules that `heliograph ctl acl` sets; those of all clients are in memory, others are read when needed."""

    announces_changes = True

    def __init__(self, type: str, store: BuiltInRules) -> None:
        super().__init__(type)
        self._store = store
        self._of_all: Rules | None = None

    async def start(self) -> None:
        self._store.open()
        self._store.on_change.append(self._changed)

    async def stop(self) -> None:
        self._store.on_change.remove(self._changed)

    def fetch(self, client: ClientInfo) -> Rules:
        rows = self._store.get(CLIENTID, client.clientid)
        if client.username is not None:
            rows = [*rows, *self._store.get(USERNAME, client.username)]
        if rows:
            return rules_of_rows([*rows, *self._store.get(ALL)])
        if self._of_all is None:
            self._of_all = rules_of_rows(self._store.get(ALL))
        return self._of_all

    def health(self) -> str:
        return self._store.fault

    def place_of(self, rule: Rule, client: ClientInfo) -> str:
        texts = [one.text for one in self.fetch(client).rules]
        at = texts.index(rule.text) if rule.text in texts else -1
        for kind, name in ((CLIENTID, client.clientid), (USERNAME, client.username), (ALL, "")):
            count = 0 if name is None else len(self._store.get(kind, name))
            if 0 <= at < count:
                return f"{kind} {name}".strip() + f", rule {at + 1}"
            at -= count
        return ""

    def _changed(self) -> None:
        self._of_all = None
        self.on_change()
