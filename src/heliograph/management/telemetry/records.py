"""Spans, entries of the log and the process as OTLP has them."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import time_ns
from typing import Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from heliograph.control.proto_v1.opentelemetry import LogRow, SpanRow
from heliograph.management.telemetry.values import key_values, resource, scope

_MEMINFO: Final = Path("/proc/meminfo")
_STAT: Final = Path("/proc/stat")


class Machine:
    """Looks at processor and memory; how much the processor had to do is known from the second time on."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None

    def gauges(self) -> Mapping[str, float]:
        """Under EMQX's names; without those that the system does not tell."""
        gauges: dict[str, float] = {"cluster.nodes.running": 1, "cluster.nodes.stopped": 0}
        try:
            gauges |= self._memory()
            gauges |= self._processor()
            gauges["run.queue"] = os.getloadavg()[0]
        except (OSError, ValueError, KeyError):  # another system
            pass
        return gauges

    def _memory(self) -> Mapping[str, float]:
        sizes = {
            name: int(rest.split()[0]) * 1024
            for name, rest in (line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        }
        total = sizes["MemTotal"]
        return {"total.memory": total, "used.memory": total - sizes["MemAvailable"]}

    def _processor(self) -> Mapping[str, float]:
        ticks = [int(one) for one in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
        now = sum(ticks), ticks[3] + ticks[4]
        before, self._before = self._before, now
        if before is None or now[0] == before[0]:
            return {}
        idle = round(100 * (now[1] - before[1]) / (now[0] - before[0]), 2)
        return {"cpu.use": round(100 - idle, 2), "cpu.idle": idle}


def since_ns(uptime_s: int) -> int:
    """When a node began that has run for so long."""
    return time.time_ns() - uptime_s * 1_000_000_000


_SAMPLED = 0x01


def trace_request(node: str, rows: Sequence[SpanRow]) -> ExportTraceServiceRequest:
    """One request with spans of a node."""
    spans = ScopeSpans(scope=scope(), spans=[_span(row) for row in rows])
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=resource(node), scope_spans=[spans])])


def _span(row: SpanRow) -> Span:
    return Span(
        trace_id=bytes.fromhex(row.trace_id),
        span_id=bytes.fromhex(row.span_id),
        parent_span_id=bytes.fromhex(row.parent_id),
        trace_state=row.state,
        name=row.name,
        kind=row.kind,  # type: ignore[arg-type]  # its number
        start_time_unix_nano=row.started_ns,
        end_time_unix_nano=row.ended_ns,
        attributes=key_values(row.attributes),
        status=Status(code=Status.STATUS_CODE_ERROR, message=row.error) if row.error else None,
        flags=_SAMPLED,
    )


# The severities of `logging`, and those of OTLP from which on each holds.
_SEVERITIES: Final = (
    (10, 5, "DEBUG"),
    (20, 9, "INFO"),
    (25, 10, "NOTICE"),
    (30, 13, "WARN"),
    (40, 17, "ERROR"),
    (50, 21, "FATAL"),
)


def logs_request(node: str, rows: Sequence[LogRow]) -> ExportLogsServiceRequest:
    """One request with log entries of a node."""
    records = ScopeLogs(scope=scope(), log_records=[_record(row) for row in rows])
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(resource=resource(node), scope_logs=[records])])


def _record(row: LogRow) -> LogRecord:
    found = [one for one in _SEVERITIES if one[0] <= row.level]
    _, number, name = found[-1] if found else (0, 1, "TRACE")
    attributes = {"logger": row.logger}
    if row.error:
        attributes["exception.stacktrace"] = row.error
    return LogRecord(
        time_unix_nano=row.at_ns,
        observed_time_unix_nano=time_ns(),
        severity_number=number,  # type: ignore[arg-type]  # its number
        severity_text=name,
        body=AnyValue(string_value=row.text),
        attributes=key_values(attributes),
    )
