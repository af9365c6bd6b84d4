"""Joins the schema registry and Sparkplug B to a node, and makes what the functions of its rules may ask."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from heliograph.config import Config
from heliograph.observe.outgoing import MessagePublisher, Outgoing
from heliograph.parts import Part
from heliograph.rules.environment import Environment
from heliograph.rules.schemas import SchemaRegistry
from heliograph.rules.schemas.configured import registry_settings
from heliograph.rules.schemas.registry import build

if TYPE_CHECKING:
    from heliograph.rules.schemas.sparkplug_service import SparkplugService

# A birth may have thousands of metrics, each of which is a message.
_WAITING_MAX: Final = 100_000


class EnvironmentPart(Part):
    """Schemas, and what else rules, expressions and message policies of a node may ask; owned by the node.

    Attributes:
        environment: What they may ask.
    """

    name = "environment"
    roots = ("schema_registry",)

    environment: Environment

    def __init__(self, config: Config) -> None:
        self._config = config
        self._open: list[Environment] = []

    async def start(self) -> None:
        """Make the schemas.

        Raises:
            SchemaSourceError: One cannot be made.
        """
        self.environment = make_environment(self._config)
        self._open.append(self.environment)

    async def stop(self) -> None:
        """End the processes that functions use."""
        while self._open:
            self._open.pop().close()


def make_environment(config: Config) -> Environment:
    """What rules, expressions and message policies of a node share; the node closes it.

    Raises:
        SchemaSourceError: A schema cannot be made.
    """
    return Environment(
        SchemaRegistry(build(registry_settings(config.schema_registry))),
        jq_timeout_s=config.rule_engine.jq_function_default_timeout,
        sparkplug_aliases_max=config.schema_registry.sparkplug_b.max_aliases,
    )


def make_sparkplug(
    config: Config, environment: Environment, kernel: MessagePublisher, clock: Callable[[], int]
) -> "SparkplugService | None":
    """What looks at Sparkplug messages of a node; None if nothing of it is wanted.

    Args:
        environment: Where functions of rules find what births said.
        kernel: Where metric messages go.
        clock: Microseconds on the monotonic clock.
    """
    settings = config.schema_registry.sparkplug_b
    if not settings.enable_alias_mapping and not settings.metric_messages:
        return None
    # Imported where it is wanted: with it comes the compiler of Protobuf schemas.
    from heliograph.rules.schemas.sparkplug_service import SparkplugService

    outgoing = Outgoing(kernel, _WAITING_MAX) if settings.metric_messages else None
    return SparkplugService(environment.births, outgoing, clock)
