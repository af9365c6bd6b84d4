"""OTLP over gRPC."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from heliograph.config.opentelemetry import OtelExporterConfig
from heliograph.management.telemetry.answers import taken_of
from heliograph.management.telemetry.collector import CollectorError, Signal, Taken

_PORT: Final = 4317
_TEXT_MAX: Final = 200
_PASSING: Final = frozenset(
    (
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    )
)
_OPTIONS: Final = [("grpc.max_reconnect_backoff_ms", 5000), ("grpc.enable_http_proxy", 0)]


class GrpcCollector:
    """A collector that is spoken to over gRPC; see `Collector`."""

    def __init__(self, settings: OtelExporterConfig) -> None:
        address = urlsplit(settings.endpoint)
        host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
        target = f"{host}:{address.port or _PORT}"
        if settings.uses_tls:
            self._channel = grpc.aio.secure_channel(target, _credentials(settings), options=_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        self._metadata = tuple((name.lower(), value) for name, value in settings.headers.items())
        self._calls: dict[Signal, Any] = {}

    async def send(self, signal: Signal, request: Message, timeout_s: float) -> Taken:
        """See `Collector.send`."""
        call = self._calls.get(signal)
        if call is None:
            call = self._calls[signal] = self._channel.unary_unary(
                signal.value[1], request_serializer=_serialized, response_deserializer=bytes
            )
        try:
            return taken_of(signal, await call(request, timeout=timeout_s, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            why = f"{error.code().name}: {error.details()}"[:_TEXT_MAX]
            raise CollectorError(why, is_passing=error.code() in _PASSING) from None
        except DecodeError:
            return Taken()

    async def close(self) -> None:
        """See `Collector.close`."""
        await self._channel.close()


def _serialized(request: Message) -> bytes:
    return request.SerializeToString()


def _credentials(settings: OtelExporterConfig) -> grpc.ChannelCredentials:
    tls = settings.ssl_options
    certificate = Path(tls.certfile).read_bytes() if tls.certfile else None
    key = Path(tls.keyfile or tls.certfile).read_bytes() if tls.certfile else None
    authorities = Path(tls.cacertfile).read_bytes() if tls.cacertfile else None
    return grpc.ssl_channel_credentials(authorities, key, certificate)
