"""What an OpenTelemetry collector gets, as a part of a node: spans and the log wait here until they are fetched."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heliograph.access.authentication.part import AuthenticationPart
from heliograph.config.opentelemetry import OpenTelemetryConfig
from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.observe.log_ring import LogRing
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Part

if TYPE_CHECKING:
    from heliograph.tracing.spans.node_spans import NodeSpans
    from heliograph.tracing.spans.whitelists import Whitelists

_log = logging.getLogger(__name__)

FILE: Final = "opentelemetry_whitelists.json"  # of the data directory
_ALARM: Final = "opentelemetry_export"


class OpenTelemetryPart(Part):
    """Makes spans and keeps log entries while they are wanted; another process fetches and exports them."""

    name = "opentelemetry"
    roots = ("opentelemetry",)
    needs = ("kernel", "data_dir", "log")
    metrics = (
        gauge("opentelemetry.spans_waiting", "Spans that wait to be exported."),
        counter("opentelemetry.spans_dropped", "Spans that gave way to newer ones before they were fetched."),
        gauge("opentelemetry.logs_waiting", "Log entries that wait to be exported."),
        counter("opentelemetry.logs_dropped", "Log entries that gave way to newer ones before they were fetched."),
        gauge("opentelemetry.sent", "Spans, points and log entries that the collector has taken from the exporter."),
        gauge("opentelemetry.given_up", "Those that the exporter gave up, since the collector did not take them."),
    )

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        authentication: Callable[[], AuthenticationPart],
    ) -> None:
        self._authentication = authentication
        self.spans: NodeSpans | None = None
        self.log: LogRing | None = None
        self._settings = config.opentelemetry
        self._directory = directory
        self._kernel = kernel
        self._lists: Whitelists | None = None
        self._exported = (0, 0)
        self._writing = asyncio.Lock()  # of the lists

    async def start(self) -> None:
        self._use(self._settings)

    async def stop(self) -> None:
        if self.spans is not None:
            self.spans.stop()
        self._use_log(OpenTelemetryConfig())

    async def check(self, new: Config) -> Change | None:
        settings, before = new.opentelemetry, self._settings
        if settings == before:
            return None
        if settings.traces.enable:
            import heliograph.tracing.spans.node_spans  # noqa: F401 - not in the turn of the change
        return Change(lambda: self._use(settings))

    # --- lists

    def whitelist(self, kind: str) -> Sequence[str]:
        """The clients (`clientid`) or topic filters (`topic`) that are always traced."""
        return self._whitelists().values[kind]

    async def set_whitelist(self, kind: str, values: Sequence[str]) -> None:
        """`ValueError` if it is too long or a value is wrong, `OSError` if it cannot be stored."""
        from heliograph.tracing.spans.whitelists import checked

        options = self._settings.traces.filter.e2e_tracing_options
        count_max = options.clientid_match_rules_max if kind == "clientid" else options.topic_match_rules_max
        lists, checked_values = self._whitelists(), checked(kind, values, count_max)
        async with self._writing:
            wanted = {**lists.values, kind: checked_values}
            await asyncio.to_thread(lists.save, wanted)
            lists.values = wanted
        if self.spans is not None:
            self.spans.list_only(wanted["clientid"], wanted["topic"])

    # --- from the process that exports

    def note_export(self, fault: str, sent: int, dropped: int) -> None:
        """How the export goes: an alarm stands while the collector takes nothing that it is to have."""
        self._exported = sent, dropped
        alarms = self._kernel.alarms
        if fault and _is_wanted(self._settings):  # it may have been sent before the export was switched off
            endpoint = self._settings.exporter.endpoint
            alarms.activate(_ALARM, f"the OpenTelemetry collector takes nothing: {fault}", {"endpoint": endpoint})
        else:
            alarms.deactivate(_ALARM)

    def samples(self) -> Iterable[Sample]:
        ring = None if self.spans is None else self.spans.ring
        log = None if self.log is None else self.log.entries
        return plain(
            {
                "opentelemetry.spans_waiting": 0 if ring is None else len(ring),
                "opentelemetry.spans_dropped": 0 if ring is None else ring.dropped_count,
                "opentelemetry.logs_waiting": 0 if log is None else len(log),
                "opentelemetry.logs_dropped": 0 if log is None else log.dropped_count,
                "opentelemetry.sent": self._exported[0],
                "opentelemetry.given_up": self._exported[1],
            }
        )

    # --- inside

    def _use(self, settings: OpenTelemetryConfig) -> None:
        self._settings = settings
        self._use_log(settings)
        if settings.traces.enable:
            from heliograph.tracing.spans.node_spans import NodeSpans

            spans = self.spans or NodeSpans(self._kernel.context, settings.traces.max_queue_size)
            self.spans = spans
            self._authentication().on_answer = spans.on_authenticator
            spans.list_only(self.whitelist("clientid"), self.whitelist("topic"))
            spans.use(settings.traces)
        elif self.spans is not None:
            self._authentication().on_answer = None
            self.spans.stop()
            self.spans.ring.clear()
        if not _is_wanted(settings):
            self.note_export("", *self._exported)

    def _use_log(self, settings: OpenTelemetryConfig) -> None:
        logs = settings.logs
        root = logging.getLogger()
        if logs.enable:
            log = self.log = self.log or LogRing(logs.level, logs.max_queue_size)
            log.use(logs.level, logs.max_queue_size)
            root.addHandler(log)
        elif self.log is not None:
            root.removeHandler(self.log)
            self.log.entries.clear()

    def _whitelists(self) -> "Whitelists":
        lists = self._lists
        if lists is None:
            from heliograph.tracing.spans.whitelists import Whitelists

            lists = self._lists = Whitelists(Path(self._directory.path) / FILE)
            try:
                lists.load()
            except (OSError, ValueError) as error:
                _log.error("the lists of what is always traced cannot be read, and are empty: %s", error)
        return lists


def _is_wanted(settings: OpenTelemetryConfig) -> bool:
    return settings.traces.enable or settings.metrics.enable or settings.logs.enable
