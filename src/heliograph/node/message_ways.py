"""The ways of messages as a part of a node (`diagnose.messages`)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from heliograph.config.monitoring import MessageWaysConfig
from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.delayed import may_be_there
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Part
from heliograph.rules.engine.engine import RuleEngine
from heliograph.storage.state.local import LocalState

if TYPE_CHECKING:
    from heliograph.tracing.ways.message_ways import MessageWays

_DATABASE: Final = "message_ways"


class MessageWaysPart(Part):
    """Owns the record of what became of messages; made when it is wanted, or when an earlier one is asked for."""

    name = "message_ways"
    metrics = (
        counter("message_ways.recorded", "Messages whose ways were recorded (`diagnose.messages`)."),
        counter("message_ways.missed", "Messages that were not recorded, since there were more than `rate` allows."),
        counter("message_ways.unheld", "Messages that were not recorded, since `max_memory` was taken."),
        gauge("message_ways.under_way", "Messages whose ways are not finished."),
        gauge("message_ways.held_bytes", "Memory of ways that are not on the disk yet, about.", "bytes"),
        gauge("message_ways.stored_bytes", "What recorded ways take on the disk, about.", "bytes"),
        gauge("message_ways.chunks", "Chunks of ways that are kept."),
        *COMMITS,
    )
    needs = ("kernel", "data_dir", "rules")
    roots = ("diagnose.messages",)

    def __init__(
        self, config: Config, directory: DataDirectory, kernel: KernelPart, rules: Callable[[], RuleEngine]
    ) -> None:
        self.settings = config.diagnose.messages
        self._directory = directory
        self._kernel = kernel
        self._rules = rules
        self._ways: MessageWays | None = None

    async def start(self) -> None:
        """What was recorded before is dropped in its time in any case."""
        if self.settings.enable or self.ways is not None:
            self._use(self.settings)

    async def check(self, new: Config) -> Change | None:
        settings = new.diagnose.messages
        if settings == self.settings:
            return None
        if settings.enable:
            import heliograph.tracing.ways.message_ways  # noqa: F401 - not in the turn of the change
        return Change(lambda: self._use(settings))

    @property
    def ways(self) -> "MessageWays | None":
        """None where nothing ever was recorded."""
        if self._ways is None and may_be_there(LocalState(self._directory.path, _DATABASE).path):
            self._ways = self._made()
        return self._ways

    def tick(self, uptime_us: int) -> None:
        if self._ways is not None:
            self._ways.tick(uptime_us)

    async def stop(self) -> None:
        if self._ways is not None:
            await self._ways.close()

    def health(self) -> str:
        return "" if self._ways is None else str(self._ways.store.health)

    def samples(self) -> list[Sample]:
        if self._ways is None:
            return plain({metric.name: 0 for metric in self.metrics if metric.name.startswith("message_ways.")})
        state = self._ways.store.state
        found = samples_of(state.name, state.statistics(), state.commit_times)
        return [*plain(self._ways.statistics()), *found]

    def _use(self, settings: MessageWaysConfig) -> None:
        self.settings = settings
        if settings.enable and self._ways is None:
            self._ways = self._made()
        if self._ways is not None:
            self._ways.use(settings)

    def _made(self) -> "MessageWays":
        from heliograph.tracing.ways.message_ways import MessageWays
        from heliograph.tracing.ways.store import WayStore

        kernel = self._kernel
        store = WayStore(LocalState(self._directory.path, _DATABASE, fsync=False), kernel.alarms)
        ways = MessageWays(store, kernel.context, kernel.alarms, self._rules().watch)
        ways.open()
        return ways
