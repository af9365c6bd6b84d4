"""A node with sources of authorization, and its clients, for the tests of this folder."""

from pathlib import Path

from heliograph.access.authorization.part import AuthorizationPart
from heliograph.access.built_in_rules.record import Row
from heliograph.access.built_in_rules.store import BuiltInRules, OwnRules
from heliograph.node.access_records import BuiltInRulesPart
from support.running import RunningNode

ALWAYS = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage { messages.topics = [], flight.enable = false }
"""


class World(RunningNode):
    """A node whose file source reads `acl.conf` in its directory."""

    def __init__(self, directory: Path, rules: str, settings: str = "") -> None:
        self.acl = directory / "acl.conf"
        self.acl.write_text(rules)
        super().__init__(directory, ALWAYS, self.settings() + settings)

    def settings(self, *types: str, no_match: str = "deny") -> str:
        """Sources in an order, `file` and `built_in_database` unless it is said otherwise."""
        named = {"file": f'{{ type = file, path = "{self.acl}" }}', "built_in_database": "{ type = built_in_database }"}
        sources = ", ".join(named[one] for one in types or named)
        return f"authorization {{ no_match = {no_match}, sources = [{sources}] }}\n"

    @property
    def authorization(self) -> AuthorizationPart:
        """The part under test."""
        return self.node.parts.get(AuthorizationPart)

    @property
    def built_in(self) -> BuiltInRules:
        """The rules of the built-in database."""
        return self.node.parts.get(BuiltInRulesPart).rules

    async def give(self, kind: str, name: str, *rules: str) -> None:
        """Set built-in rules, each as `PERMISSION ACTION TOPIC`."""
        rows: list[Row] = []
        for rule in rules:
            permission, action, topic = rule.split(maxsplit=2)
            rows.append({"permission": permission, "action": action, "topic": topic})
        await self.built_in.put([OwnRules(kind, name, rows)])

    def counts(self, type: str) -> dict[str, int]:
        """What a source has counted, without zeros."""
        (found,) = (one for one in self.authorization.status() if one.type == type)
        return {name: count for name, count in found.counts.items() if count}
