"""Exports what a node keeps for the collector: fetches it in slices, sends it, and tells the node how that goes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from heliograph.config.opentelemetry import OpenTelemetryConfig
from heliograph.control.proto_v1.metrics import METRICS_DECLARED, METRICS_SAMPLES, MetricsWanted
from heliograph.control.proto_v1.node import NODE_STATUS
from heliograph.control.proto_v1.opentelemetry import (
    OPENTELEMETRY_EXPORTED,
    OPENTELEMETRY_LOGS,
    OPENTELEMETRY_SPANS,
    ExportArgs,
    WaitingArgs,
)
from heliograph.management.asking.nodes import Node
from heliograph.outbound import Outbound
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

if TYPE_CHECKING:
    from heliograph.management.telemetry.collector import Collector, Signal
    from heliograph.management.telemetry.metrics import MetricsForm

_log = logging.getLogger(__name__)

_ITEMS_MAX: Final = 512  # of one request
_PAUSE_S: Final = 1.0  # after what failed; longer each time
_LONGEST_PAUSE_S: Final = 30.0


class Exporter:
    """Exports as settings say; owned by the program, from `use` to `stop`.

    What was not taken stays in the node, where the oldest gives way to new: nothing waits here.
    """

    def __init__(self, node: Node, outbound: Outbound) -> None:
        self._dialer = outbound.dialer("opentelemetry.exporter")
        self._node = node
        self._settings = OpenTelemetryConfig()
        self._tasks: list[asyncio.Task[None]] = []
        self._collector: Collector | None = None
        self._after: dict[str, int] = {}  # the number of the newest item that the collector has, by kind
        self._faults: dict[str, str] = {}
        self._sent = 0
        self._dropped = 0
        self._told: ExportArgs | None = None  # what the node knows; None where that is not certain
        self._telling = asyncio.Lock()

    async def use(self, settings: OpenTelemetryConfig) -> None:
        """Export as these settings say, from now on."""
        if settings == self._settings:
            return
        await self.stop()
        self._settings = settings
        self._faults.clear()
        wanted: list[tuple[str, Callable[[], Awaitable[bool]], float]] = []
        if settings.traces.enable:
            wanted.append(("traces", self._send_spans, settings.traces.scheduled_delay))
        if settings.metrics.enable:
            wanted.append(("metrics", self._metrics_sender(), settings.metrics.interval))
        if settings.logs.enable:
            wanted.append(("logs", self._send_logs, settings.logs.scheduled_delay))
        self._tasks = [
            asyncio.create_task(self._run(name, step, delay_s), name=f"telemetry-{name}")
            for name, step, delay_s in wanted
        ]

    async def stop(self) -> None:
        """Export nothing any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._collector is not None:
            await self._collector.close()
            self._collector = None
        self._settings = OpenTelemetryConfig()

    async def _run(self, name: str, step: Callable[[], Awaitable[bool]], delay_s: float) -> None:
        """Do a step again and again; at once where there was more than one request may have."""
        from heliograph.management.telemetry.collector import CollectorError

        pause_s = _PAUSE_S
        while True:
            try:
                has_more = await step()
            except (CollectorError, OSError) as error:
                await self._tell(name, str(error))
                await asyncio.sleep(pause_s)  # the collector is left alone
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
                continue
            except (RpcError, UnreachableError) as error:
                _log.warning("the node cannot be asked for %s: %s", name, error)
                has_more = False
            except Exception:  # noqa: BLE001 - it is logged, and other items may do better
                _log.exception("the export of %s failed, and goes on with what comes", name)
                has_more = False
            else:
                await self._tell(name, "")
                pause_s = _PAUSE_S
            if not has_more:
                await asyncio.sleep(delay_s)  # the pace that was set

    async def _send_spans(self) -> bool:
        from heliograph.management.telemetry.collector import Signal
        from heliograph.management.telemetry.records import trace_request

        args = WaitingArgs(self._after.get("traces", 0), _ITEMS_MAX)
        rows = await self._node.rows(OPENTELEMETRY_SPANS(args))
        if rows:
            request, timeout_s = trace_request(self._node.name, rows), self._settings.traces.exporting_timeout
            await self._send(Signal.TRACES, request, len(rows), timeout_s, rows[-1].number)
        return len(rows) == _ITEMS_MAX

    async def _send_logs(self) -> bool:
        from heliograph.management.telemetry.collector import Signal
        from heliograph.management.telemetry.records import logs_request

        args = WaitingArgs(self._after.get("logs", 0), _ITEMS_MAX)
        rows = await self._node.rows(OPENTELEMETRY_LOGS(args))
        if rows:
            request, timeout_s = logs_request(self._node.name, rows), self._settings.logs.exporting_timeout
            await self._send(Signal.LOGS, request, len(rows), timeout_s, rows[-1].number)
        return len(rows) == _ITEMS_MAX

    def _metrics_sender(self) -> Callable[[], Awaitable[bool]]:
        from heliograph.management.telemetry.collector import Signal
        from heliograph.management.telemetry.records import Machine

        machine = Machine()
        form: MetricsForm | None = None

        async def send() -> bool:
            nonlocal form
            if form is None:
                form = await self._metrics_form()
            samples = await self._node.rows(METRICS_SAMPLES(MetricsWanted()))
            request, timeout_s = form.request(samples, machine.gauges()), self._settings.metrics.interval
            await self._send(Signal.METRICS, request, len(samples), max(timeout_s, 1.0))
            return False

        return send

    async def _metrics_form(self) -> "MetricsForm":
        from heliograph.management.telemetry.metrics import MetricsForm
        from heliograph.management.telemetry.records import since_ns

        status = await self._node.ask(NODE_STATUS())
        declared = await self._node.rows(METRICS_DECLARED())
        return MetricsForm(self._node.name, since_ns(status.uptime_s), declared)

    async def _send(self, signal: "Signal", request: object, count: int, timeout_s: float, number: int = 0) -> None:
        """Send items; what the collector refuses for good is given up."""
        from google.protobuf.message import Message

        from heliograph.management.telemetry.collector import CollectorError, send_patiently
        from heliograph.management.telemetry.connecting import make_collector

        assert isinstance(request, Message)
        if self._collector is None:
            self._collector = make_collector(self._settings.exporter, self._dialer)
        name = signal.name.lower()
        try:
            taken = await send_patiently(self._collector, signal, request, timeout_s)
        except CollectorError as error:
            if not error.is_passing:
                self._dropped += count
                self._after[name] = number
            raise
        if taken.rejected:
            _log.warning("the collector did not take %d of %d %s: %s", taken.rejected, count, name, taken.why[:200])
        self._sent += count - taken.rejected
        self._dropped += taken.rejected
        self._after[name] = number

    async def _tell(self, name: str, fault: str) -> None:
        """Tell the node how it goes, if that is new."""
        self._faults[name] = fault
        async with self._telling:  # the node hears the newest last
            faults = sorted({one for one in self._faults.values() if one})
            report = ExportArgs("; ".join(faults), self._sent, self._dropped)
            if report == self._told:
                return
            self._told = None  # this may be cancelled when the node has heard it
            try:
                await self._node.ask(OPENTELEMETRY_EXPORTED(report))
            except (RpcError, UnreachableError) as error:
                _log.warning("the state of the export cannot be sent to the node: %s", error)
            else:
                self._told = report
