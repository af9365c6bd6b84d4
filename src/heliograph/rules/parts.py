"""What rules, expressions and message policies may ask besides the message, as a part of a node."""

from heliograph.config.settings import Config
from heliograph.outbound import Outbound
from heliograph.parts import Change, Part
from heliograph.rules.environment import Environment
from heliograph.rules.schemas import SchemaRegistry
from heliograph.rules.schemas.configured import registry_settings
from heliograph.rules.schemas.registry import build


class EnvironmentPart(Part):
    """Schemas, and what else rules, expressions and message policies of a node may ask; owned by the node."""

    name = "environment"
    roots = ("schema_registry", "rule_engine.jq_function_default_timeout")

    environment: Environment

    def __init__(self, config: Config, outbound: Outbound | None = None) -> None:
        self._config = config
        self._outbound = outbound or Outbound(config.outbound)
        self._settings = registry_settings(config.schema_registry)  # of the schemas that there are
        self._open: list[Environment] = []

    async def start(self) -> None:
        self.environment = make_environment(self._config, self._outbound)
        self._open.append(self.environment)

    async def check(self, new: Config) -> Change | None:
        """Make other schemas ready for rules and policies that are checked after this; unchanged ones stay."""
        settings, schemas = registry_settings(new.schema_registry), self.environment.schemas
        limits = _limits(new)
        if settings == self._settings:
            return None if limits == _limits(self._config) else Change(lambda: self._use(new))
        kept = [schemas.get(one.name) for one in settings if one in self._settings]
        schemas.prepare([*kept, *build((one for one in settings if one not in self._settings), self._outbound)])

        def apply() -> None:
            self._settings = settings
            schemas.apply()
            self._use(new)

        return Change(apply, schemas.undo)

    def _use(self, new: Config) -> None:
        self._config = new
        jq_timeout_s, aliases_max = _limits(new)
        self.environment.use(jq_timeout_s=jq_timeout_s, sparkplug_aliases_max=aliases_max)

    async def stop(self) -> None:
        while self._open:
            self._open.pop().close()


def make_environment(config: Config, outbound: Outbound) -> Environment:
    """What rules, expressions and message policies of a node share; the node closes it."""
    jq_timeout_s, aliases_max = _limits(config)
    schemas = SchemaRegistry(build(registry_settings(config.schema_registry), outbound))
    return Environment(schemas, jq_timeout_s=jq_timeout_s, sparkplug_aliases_max=aliases_max)


def _limits(config: Config) -> tuple[float, int]:
    return config.rule_engine.jq_function_default_timeout, config.schema_registry.sparkplug_b.max_aliases
