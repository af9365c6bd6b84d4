"""What a collector answers: how much of a request it did not take."""

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from heliograph.management.telemetry.collector import Signal, Taken


def taken_of(signal: Signal, answer: bytes) -> Taken:
    """The answer to a request.

    Raises:
        DecodeError: It is not one.
    """
    if signal is Signal.TRACES:
        spans = ExportTraceServiceResponse.FromString(answer).partial_success
        return Taken(spans.rejected_spans, spans.error_message)
    if signal is Signal.METRICS:
        points = ExportMetricsServiceResponse.FromString(answer).partial_success
        return Taken(points.rejected_data_points, points.error_message)
    entries = ExportLogsServiceResponse.FromString(answer).partial_success
    return Taken(entries.rejected_log_records, entries.error_message)
