"""Collectors of OpenTelemetry on free ports, over HTTP and over gRPC, with the official messages."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

import grpc
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.waiting import wait_until

_KINDS: Final[dict[str, tuple[type[Message], type[Message], str]]] = {
    "traces": (ExportTraceServiceRequest, ExportTraceServiceResponse, "trace.v1.TraceService"),
    "metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse, "metrics.v1.MetricsService"),
    "logs": (ExportLogsServiceRequest, ExportLogsServiceResponse, "logs.v1.LogsService"),
}


class Received:
    """What came.

    Attributes:
        refusals: How many of the next requests are refused.
        headers: Those of the last request.
    """

    def __init__(self) -> None:
        self.refusals = 0
        self.refused_count = 0
        self.headers: Mapping[str, str] = {}
        self._requests: list[Any] = []
        self._lock = threading.Lock()

    def put(self, request: Message, headers: Mapping[str, str]) -> bool:
        """Take a request; whether it is not to be refused."""
        with self._lock:
            self.headers = headers
            if self.refusals > 0:
                self.refusals -= 1
                self.refused_count += 1
                return False
            self._requests.append(request)
            return True

    def resources(self) -> list[Mapping[str, Any]]:
        """The attributes of the resources of all requests."""
        with self._lock:
            return [
                attributes_of(part.resource.attributes)
                for request in self._requests
                for _, parts in request.ListFields()
                for part in parts
            ]

    def spans(self) -> list[Span]:
        """All spans."""
        with self._lock:
            return [
                span
                for request in self._requests
                if isinstance(request, ExportTraceServiceRequest)
                for part in request.resource_spans
                for scope in part.scope_spans
                for span in scope.spans
            ]

    def metrics(self) -> dict[str, Metric]:
        """The newest of each metric, by name."""
        with self._lock:
            return {
                metric.name: metric
                for request in self._requests
                if isinstance(request, ExportMetricsServiceRequest)
                for part in request.resource_metrics
                for scope in part.scope_metrics
                for metric in scope.metrics
            }

    def logs(self) -> list[LogRecord]:
        """All entries of the log."""
        with self._lock:
            return [
                record
                for request in self._requests
                if isinstance(request, ExportLogsServiceRequest)
                for part in request.resource_logs
                for scope in part.scope_logs
                for record in scope.log_records
            ]

    def until(self, found: Callable[[], object], what: str) -> None:
        """Wait until something came."""
        wait_until(found, what)


def attributes_of(pairs: Any) -> dict[str, Any]:
    """Attributes as a mapping."""
    return {pair.key: _plain(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)


class HttpCollectorServer:
    """A collector over HTTP; a context. Before that it has its port, and refuses connections.

    Attributes:
        received: What came.
        endpoint: Where it is.
    """

    def __init__(self) -> None:
        received = self.received = Received()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                kind = self.path.removeprefix("/v1/")
                body = self.rfile.read(int(self.headers["content-length"]))
                request, answer, _ = _KINDS[kind]
                assert self.headers["content-type"] == "application/x-protobuf"
                is_taken = received.put(request.FromString(body), {k.lower(): v for k, v in self.headers.items()})
                data = answer().SerializeToString() if is_taken else b""
                self.send_response(200 if is_taken else 503)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.server_bind()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._server.server_activate()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self.close()
        self._thread.join()

    def close(self) -> None:
        """Let its port go; what `with` does besides."""
        self._server.server_close()


class GrpcCollectorServer:
    """A collector over gRPC; a context.

    Attributes:
        received: What came.
        endpoint: Where it is.
    """

    def __init__(self) -> None:
        self.received = Received()
        self._server = grpc.server(ThreadPoolExecutor(2))
        for request, answer, service in _KINDS.values():
            handler = grpc.unary_unary_rpc_method_handler(
                self._taking(answer),
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            name = f"opentelemetry.proto.collector.{service}"
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"Export": handler}),))
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def _taking(self, answer: type[Message]) -> Callable[[Message, Any], Message]:
        def take(request: Message, context: Any) -> Message:
            if not self.received.put(request, dict(context.invocation_metadata())):
                context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            return answer()

        return take

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.stop(None).wait()
