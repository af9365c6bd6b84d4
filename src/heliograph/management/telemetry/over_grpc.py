"""OTLP over gRPC."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from heliograph.config.opentelemetry import OtelExporterConfig
from heliograph.management.telemetry.answers import taken_of
from heliograph.management.telemetry.collector import CollectorError, Signal, Taken
from heliograph.outbound import Dialer, SocketAddress
from heliograph.settings.outbound import OutboundConfig
from heliograph.settings.units import Address

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
_OPTIONS: Final[list[tuple[str, str | int]]] = [("grpc.max_reconnect_backoff_ms", 5000), ("grpc.enable_http_proxy", 0)]


class GrpcCollector:
    """A collector that is spoken to over gRPC; see `Collector`."""

    def __init__(self, settings: OtelExporterConfig, dialer: Dialer) -> None:
        address = urlsplit(settings.endpoint)
        self._host, self._port = address.hostname or "", address.port or _PORT
        self._credentials = _credentials(settings) if settings.uses_tls else None
        self._dialer = dialer
        self._connecting = asyncio.Lock()
        self._channel: grpc.aio.Channel | None = None
        self._allowed_by: OutboundConfig | None = None  # the settings that its addresses were held against
        self._metadata = tuple((name.lower(), value) for name, value in settings.headers.items())

    async def send(self, signal: Signal, request: Message, timeout_s: float) -> Taken:
        """See `Collector.send`."""
        channel = await self._connected()
        call = channel.unary_unary(signal.value[1], request_serializer=_serialized, response_deserializer=bytes)
        try:
            return taken_of(signal, await call(request, timeout=timeout_s, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE and channel is self._channel:
                await self.close()  # the name may mean another address now
            why = f"{error.code().name}: {error.details()}"[:_TEXT_MAX]
            raise CollectorError(why, is_passing=error.code() in _PASSING) from None
        except DecodeError:
            return Taken()

    async def close(self) -> None:
        """See `Collector.close`."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _connected(self) -> grpc.aio.Channel:
        """The channel, to addresses that were checked: the library would resolve a name by itself, again and again."""
        async with self._connecting:
            allowed_by = self._dialer.outbound.config
            if self._channel is None or self._allowed_by is not allowed_by:
                try:
                    addresses = await self._dialer.resolve(self._host, self._port)
                except OSError as error:
                    raise CollectorError(str(error), is_passing=True) from None
                await self.close()
                self._channel, self._allowed_by = self._made(addresses), allowed_by
            return self._channel

    def _made(self, addresses: Sequence[SocketAddress]) -> grpc.aio.Channel:
        """A channel to those of one family, as a target has only one."""
        family = addresses[0].family
        places = [
            one.host if family == socket.AF_INET else f"[{one.host}]" for one in addresses if one.family == family
        ]
        scheme = "ipv4" if family == socket.AF_INET else "ipv6"
        target = f"{scheme}:{','.join(f'{place}:{self._port}' for place in places)}"
        named = [*_OPTIONS, ("grpc.default_authority", str(Address(self._host, self._port)))]
        if self._credentials is None:
            return grpc.aio.insecure_channel(target, options=named)
        named.append(("grpc.ssl_target_name_override", self._host))  # the certificate is that of the name
        return grpc.aio.secure_channel(target, self._credentials, options=named)


def _serialized(request: Message) -> bytes:
    return request.SerializeToString()


def _credentials(settings: OtelExporterConfig) -> grpc.ChannelCredentials:
    tls = settings.ssl_options
    certificate = Path(tls.certfile).read_bytes() if tls.certfile else None
    key = Path(tls.keyfile or tls.certfile).read_bytes() if tls.certfile else None
    authorities = Path(tls.cacertfile).read_bytes() if tls.cacertfile else None
    return grpc.ssl_channel_credentials(authorities, key, certificate)
