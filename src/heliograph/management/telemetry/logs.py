"""Entries of the log in the form of OTLP."""

from collections.abc import Sequence
from time import time_ns
from typing import Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from heliograph.control.proto_v1.opentelemetry import LogRow
from heliograph.management.telemetry.values import key_values, resource, scope

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
