"""Joins the schema registry to a node."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from heliograph.config import Config
from heliograph.observe.outgoing import Kernel, Outgoing
from heliograph.rules.schemas import INSTALLED
from heliograph.rules.schemas.configured import registry_settings
from heliograph.rules.schemas.settings import build

if TYPE_CHECKING:
    from heliograph.rules.schemas.sparkplug_service import SparkplugService

# A birth may have thousands of metrics, each of which is a message.
_WAITING_MAX: Final = 100_000


def install_schemas(config: Config) -> None:
    """Have the registry of this process hold the schemas of a configuration.

    Raises:
        SchemaSourceError: One cannot be made.
    """
    INSTALLED.replace(build(registry_settings(config.schema_registry)))


def make_sparkplug(config: Config, kernel: Kernel, clock: Callable[[], int]) -> "SparkplugService | None":
    """What looks at Sparkplug messages of a node; None if nothing of it is wanted.

    Args:
        kernel: Where metric messages go.
        clock: Microseconds on a clock that nobody sets.
    """
    settings = config.schema_registry.sparkplug_b
    if not settings.enable_alias_mapping and not settings.metric_messages:
        return None
    # Imported where it is wanted: with it comes the compiler of Protobuf schemas.
    from heliograph.rules.schemas.sparkplug_births import BIRTHS
    from heliograph.rules.schemas.sparkplug_service import SparkplugService

    BIRTHS.clear()
    BIRTHS.aliases_max = settings.max_aliases
    outgoing = Outgoing(kernel, _WAITING_MAX) if settings.metric_messages else None
    return SparkplugService(BIRTHS, outgoing, clock)
