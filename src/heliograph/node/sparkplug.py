"""What a node does with Sparkplug B besides decoding it: aliases are learned, and metrics published as messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from heliograph.broker import hooks
from heliograph.broker.hook_order import SPARKPLUG
from heliograph.config import Config
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.observe.outgoing import SystemMessageQueue
from heliograph.parts import Hook, HookedPart
from heliograph.rules.parts import EnvironmentPart

if TYPE_CHECKING:
    from heliograph.rules.schemas.sparkplug_service import SparkplugService

# A birth may have thousands of metrics, each of which is a message.
_WAITING_MAX: Final = 100_000


class SparkplugPart(HookedPart):
    """Looks at Sparkplug messages where that is asked for; owned by the node."""

    name = "sparkplug"
    metrics = (
        gauge("sparkplug.edge_nodes", "Sparkplug edge nodes whose births are known."),
        counter("sparkplug.edge_nodes.evicted", "Edge nodes that were forgotten to bound memory."),
        gauge("sparkplug.aliases", "Aliases that they declared."),
        counter("sparkplug.births.refused", "Births that declared too many aliases."),
        counter("sparkplug.births.malformed", "Births that cannot be read."),
        counter("sparkplug.metrics.published", "Metrics that were published as messages."),
        counter("sparkplug.metrics.unnamed", "Metrics whose alias no birth declared."),
        counter("sparkplug.metrics.unpublishable", "Metrics whose name no topic can hold."),
        counter("sparkplug.payloads.malformed", "Sparkplug messages that cannot be read."),
    )
    needs = ("kernel", "environment", "commits")
    roots = ("schema_registry.sparkplug_b",)

    def __init__(self, config: Config, kernel: KernelPart, environment: EnvironmentPart) -> None:
        super().__init__(kernel.broker.hooks)
        self._settings = config.schema_registry.sparkplug_b
        self._kernel = kernel
        self._environment = environment
        self._service: SparkplugService | None = None

    async def start(self) -> None:
        """Look at messages, if anything of it is wanted."""
        settings, kernel = self._settings, self._kernel
        if not settings.enable_alias_mapping and not settings.metric_messages:
            return
        # Imported where it is wanted: with it comes the compiler of Protobuf schemas.
        from heliograph.rules.schemas.sparkplug_service import SparkplugService

        outgoing = SystemMessageQueue(kernel.voice.publisher, _WAITING_MAX) if settings.metric_messages else None
        self._service = SparkplugService(self._environment.environment.births, outgoing, kernel.context.clock)
        self.hook_in()

    def samples(self) -> list[Sample]:
        """Counts named `sparkplug.*`."""
        return plain({} if self._service is None else self._service.statistics())

    def wanted(self) -> Sequence[Hook]:
        """For messages of Sparkplug B."""
        service = self._service
        if service is None:
            return ()
        return (Hook(hooks.MESSAGE_PUBLISH, service.on_message_publish, SPARKPLUG, service.wants),)
