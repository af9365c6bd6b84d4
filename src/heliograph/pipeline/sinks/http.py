"""The sink `http`: rows posted to a web service, one by one or as JSON arrays, signed, with an idempotency key.

Rows arrive at least once. A request that is sent again has the same idempotency key, also from the next driver, so that
a service that remembers keys takes each once. The key ends with a digest of the body: should a batch that runs again
bring its rows in other portions, no portion is taken for another one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from typing import ClassVar, Final

import pyarrow as pa

from heliograph.hocon.values import Content
from heliograph.outbound.http_connection import HttpConnections
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.http_delivery import BODY, URL, HttpDelivery, RequestForm
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.rows import Derived, Rows
from heliograph.pipeline.sinks.servers import ServerSink, revealed
from heliograph.pipeline.sinks.template import placeholders
from heliograph.pipeline.tls import tls_context
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, RefusedError, SecretText, Text, Texts
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

_BATCH_ROWS: Final = 100
# Columns are taken apart for so many rows at a time.
_CHUNK_ROWS: Final = 1000
_WITHOUT_BODY: Final = ("GET", "DELETE")


class Method(Choice):
    def __init__(self) -> None:
        super().__init__("POST", "PUT", "PATCH", *_WITHOUT_BODY)

    def convert(self, value: Content) -> str:
        return super().convert(value.upper() if isinstance(value, str) else value)


@dataclass(frozen=True)
class HttpSink(ServerSink):
    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    url: str = required(
        Text("a template that begins with http:// or https://", r"(?s)https?://.+"),
        "Template of the address.",
        is_secret=True,
    )
    method: str = setting(Method(), "POST", "Method of the requests; GET and DELETE have no body.")
    headers: Mapping[str, str] = setting(Texts(), {}, "Templates of headers, by name.", is_secret=True)
    body: str | None = optional(Text("a template"), "Template of the body for one row; without, the row as JSON.")
    batch_rows: int | None = optional(
        Integer(1, 10_000),
        "Rows of a request, more than one as a JSON array of their bodies; without, 100, and 1 where `url` or "
        "`headers` take something of the row.",
    )
    concurrency: int = setting(
        Integer(1, 64), 1, "Requests at a time; with more than one they may arrive in another order."
    )
    gzip: bool = setting(Boolean(), False, "Whether bodies are compressed.")
    sign_key: Secret | None = optional(SecretText(), "Key of the signature; without, requests have none.")
    timeout_s: float = setting(Duration(0.001, needs_unit=True), 30.0, "How long an answer may take.", name="timeout")

    def __post_init__(self) -> None:
        if self._is_single and (self.batch_rows or 1) > 1:
            reason = "url or headers take something of the row" if self._has_body else f"{self.method} has no body"
            raise RefusedError(f"must be 1: {reason}", "batch_rows")

    @property
    def _has_body(self) -> bool:
        return self.method not in _WITHOUT_BODY

    @property
    def _request_rows(self) -> int:
        return 1 if self._is_single else self.batch_rows or _BATCH_ROWS

    @property
    def _is_single(self) -> bool:
        return not self._has_body or any(placeholders(text) for text in (self.url, *self.headers.values()))

    @property
    def target(self) -> str:
        """The method and the address, without what may be secret in it."""
        return f"HTTP {self.method} {_without_secrets(self.url)}"

    @property
    def _form(self) -> RequestForm:
        columns = self._header_columns
        return RequestForm(
            self.method,
            None if placeholders(self.url) else self.url,
            {name: text for name, text in self.headers.items() if name not in columns},
            columns,
            None if self.username is None else (self.username, self.password_text or ""),
            revealed(self.sign_key),
            self._request_rows,
            self._has_body,
            self.gzip,
        )

    @property
    def _header_columns(self) -> Mapping[str, str]:
        """The derived columns of the headers that take something of the row."""
        names = [name for name, template in self.headers.items() if placeholders(template)]
        return {name: f"header_{number}" for number, name in enumerate(names)}

    @property
    def derived(self) -> Sequence[Derived]:
        made = [Derived(BODY, self.body, "body")] if self._has_body else []
        if placeholders(self.url):
            made.append(Derived(URL, self.url, "url", is_text=True))
        columns = self._header_columns
        return made + [Derived(columns[name], self.headers[name], f"headers.{name}", is_text=True) for name in columns]

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        def refuse(chunk: pa.RecordBatch, index: int, reason: str) -> None:
            batch.refuse(rows.row(chunk, index), reason)

        chunk_rows = self._request_rows * max(1, _CHUNK_ROWS // self._request_rows)
        with (
            batch.connections.opened(self._connections) as connections,
            HttpDelivery(self, self._form, self.concurrency, connections, batch, refuse) as delivery,
        ):
            for chunk in rows.chunks(chunk_rows):
                delivery.send(chunk)
            return Written(figures=delivery.finish())

    def _connections(self) -> HttpConnections:
        return HttpConnections(self.dialer, self._context, self.timeout_s)

    def _context(self) -> SSLContext:
        return tls_context(self.tls or ClientTls(), SinkError)


def _without_secrets(url: str) -> str:
    # Tokens are found in paths and queries, passwords before the host.
    scheme, slashes, rest = url.partition("?")[0].partition("://")
    return f"{scheme}{slashes}{rest.partition('/')[0].rpartition('@')[2]}"
