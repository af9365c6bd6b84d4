"""What a node does with Sparkplug B besides decoding it: aliases are learned, and metrics published as messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from heliograph.broker import hooks
from heliograph.broker.hook_order import SPARKPLUG
from heliograph.config.schemas import SparkplugConfig
from heliograph.config.settings import Config
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.observe.outgoing import SystemMessageQueue
from heliograph.parts import Change, Hook, HookedPart
from heliograph.rules.parts import EnvironmentPart

if TYPE_CHECKING:
    from heliograph.rules.schemas.sparkplug_service import SparkplugService

# A birth may have thousands of metrics, each of which is a message.
_WAITING_MAX: Final = 100_000


class SparkplugPart(HookedPart):
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
        self._service: SparkplugService | None = None  # made when it is wanted first
        self._outgoing: SystemMessageQueue | None = None  # likewise

    async def start(self) -> None:
        self._prepare(self._settings)
        self._use(self._settings)

    async def check(self, new: Config) -> Change | None:
        """Births are known that come while it is asked for."""
        settings = new.schema_registry.sparkplug_b
        if settings == self._settings:
            return None
        self._prepare(settings)
        return Change(lambda: self._use(settings))

    def _prepare(self, settings: SparkplugConfig) -> None:
        """Make what looks at messages; it does nothing before it is hooked in."""
        if self._service is not None or not _is_wanted(settings):
            return
        # Imported where it is wanted: with it comes the compiler of Protobuf schemas.
        from heliograph.rules.schemas.sparkplug_service import SparkplugService

        births = self._environment.environment.births
        self._service = SparkplugService(births, None, self._kernel.context.clock)

    def _use(self, settings: SparkplugConfig) -> None:
        self._settings = settings
        if self._service is not None:
            if settings.metric_messages and self._outgoing is None:
                self._outgoing = SystemMessageQueue(self._kernel.voice.publisher, _WAITING_MAX)
            self._service.publish_to(self._outgoing if settings.metric_messages else None)
            if not _is_wanted(settings):  # what changes while they are not looked at would not be known
                self._environment.environment.births.clear()
        self.hook_in()

    def samples(self) -> list[Sample]:
        return plain({} if self._service is None else self._service.statistics())

    def wanted(self) -> Sequence[Hook]:
        service = self._service
        if service is None or not _is_wanted(self._settings):
            return ()
        return (Hook(hooks.MESSAGE_PUBLISH, service.on_message_publish, SPARKPLUG, service.wants),)


def _is_wanted(settings: SparkplugConfig) -> bool:
    return settings.enable_alias_mapping or settings.metric_messages
