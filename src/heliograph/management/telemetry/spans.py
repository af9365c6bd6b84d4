"""Spans in the form of OTLP."""

from collections.abc import Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from heliograph.control.proto_v1.opentelemetry import SpanRow
from heliograph.management.telemetry.values import key_values, resource, scope

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
