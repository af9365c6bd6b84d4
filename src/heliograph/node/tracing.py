"""Traces as a part of a node."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heliograph.config.monitoring import TracesConfig
from heliograph.config.settings import Config
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Part
from heliograph.rules.engine.engine import RuleEngine

if TYPE_CHECKING:
    from heliograph.tracing.traces import Traces

_log = logging.getLogger(__name__)

FOLDER: Final = "trace"  # of the data directory


class TracingPart(Part):
    """Owns the traces of a node, which all end with it; their files stay."""

    name = "tracing"
    metrics = (
        gauge("traces.count", "Traces that are on."),
        counter("traces.records_dropped", "Records that files of traces lack: the disk was too slow, or full."),
    )
    needs = ("kernel", "data_dir")
    roots = ("diagnose.traces",)

    def __init__(self, config: Config, kernel: KernelPart, rules: Callable[[], RuleEngine]) -> None:
        self._rules = rules
        self._settings = config.diagnose.traces
        self._folder = Path(config.node.data_dir) / FOLDER
        self._kernel = kernel
        self._traces: Traces | None = None  # made when one is asked for

    @property
    def traces(self) -> "Traces":
        """Only while the part runs."""
        traces = self._traces
        if traces is None:
            from heliograph.tracing.traces import Traces  # a start does without

            watch = self._rules().watch
            traces = Traces(self._folder, self._kernel.context, self._settings.max_bytes, _log.info, watch)
            self._traces = traces
        return traces

    async def check(self, new: Config) -> Change | None:
        settings = new.diagnose.traces
        return None if settings == self._settings else Change(lambda: self._use(settings))

    def _use(self, settings: TracesConfig) -> None:
        self._settings = settings
        if self._traces is not None:
            self._traces.bytes_max = settings.max_bytes

    def tick(self, uptime_us: int) -> None:
        if self._traces is not None:
            self._traces.tick(uptime_us)

    async def stop(self) -> None:
        if self._traces is not None:
            await self._traces.close()

    def samples(self) -> list[Sample]:
        counts = {"traces.count": 0, "traces.records_dropped": 0}
        return plain(counts if self._traces is None else self._traces.statistics())
