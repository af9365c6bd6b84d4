"""OTLP over HTTP."""

from typing import Final

import httpx
from google.protobuf.message import DecodeError, Message

from heliograph.config.opentelemetry import OtelExporterConfig
from heliograph.management.telemetry.answers import taken_of
from heliograph.management.telemetry.collector import CollectorError, Signal, Taken
from heliograph.outbound import Dialer
from heliograph.outbound.http import AsyncDialedTransport

_PASSING: Final = frozenset((429, 502, 503, 504))
_TEXT_MAX: Final = 200


class HttpCollector:
    """A collector that is spoken to over HTTP; see `Collector`."""

    def __init__(self, settings: OtelExporterConfig, dialer: Dialer) -> None:
        tls = settings.ssl_options
        verify = tls.context() if settings.endpoint.startswith("https:") else False
        self._endpoint = settings.endpoint.rstrip("/")
        self._client = httpx.AsyncClient(
            transport=AsyncDialedTransport(dialer, verify, httpx.Limits(max_connections=3)),
            headers={**settings.headers, "content-type": "application/x-protobuf"},
            trust_env=False,
        )

    async def send(self, signal: Signal, request: Message, timeout_s: float) -> Taken:
        """See `Collector.send`."""
        try:
            answer = await self._client.post(
                self._endpoint + signal.value[0], content=request.SerializeToString(), timeout=timeout_s
            )
        except httpx.HTTPError as error:
            raise CollectorError(f"{type(error).__name__}: {error}"[:_TEXT_MAX], is_passing=True) from None
        if answer.status_code // 100 == 2:
            try:
                return taken_of(signal, answer.content)
            except DecodeError:
                return Taken()
        wait = answer.headers.get("retry-after", "")
        raise CollectorError(
            f"it answers with HTTP status {answer.status_code}",
            is_passing=answer.status_code in _PASSING,
            pause_s=float(wait) if wait.isdigit() else 0.0,
        )

    async def close(self) -> None:
        """See `Collector.close`."""
        await self._client.aclose()
