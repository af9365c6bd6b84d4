"""Schemas behind a service, and the client that asks a service over HTTP, with limits to time and size.

Each encoding and decoding is one request, in the form that EMQX uses. A POST carries `{"payload": base64, "type":
"encode" | "decode", "schema_name", "opts"}`, a GET the same as parameters, with the payload in the URL-safe alphabet
without padding. The answer is status 200 and base64.
"""

import binascii
import time
from base64 import b64decode, b64encode, urlsafe_b64encode
from typing import Any, Final

import httpx

from heliograph.outbound import Dialer, Outbound
from heliograph.outbound.http import DialedTransport
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import encode_json
from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.schemas.settings import EXTERNAL_HTTP, HttpService, SchemaSourceError
from heliograph.rules.values import Value, string_of
from heliograph.settings.url_secrets import masked_url

_BODY_SHOWN_BYTES: Final = 200


class ServiceClient:
    """Connections to one service, for all threads; owned by the schema that asks it, made when first needed."""

    def __init__(self, service: HttpService, dialer: Dialer) -> None:
        self._bytes_max = service.response_bytes_max
        self._timeout_s = service.request_timeout_s
        limits = httpx.Limits(max_connections=service.pool_size)
        try:
            self.url = httpx.URL(service.url)
            self.place = masked_url(service.url)
            transport = DialedTransport(dialer, service.tls.context(), limits, service.retries_max)
        except (httpx.InvalidURL, OSError, ValueError) as error:
            raise SchemaSourceError(f"the service {masked_url(service.url)!r} cannot be used: {error}") from None
        self._client = httpx.Client(
            transport=transport,
            timeout=httpx.Timeout(service.request_timeout_s, connect=service.connect_timeout_s),
            headers={"accept-encoding": "identity"} | dict(service.headers),
            auth=service.basic_auth,
            trust_env=False,
            follow_redirects=False,
        )

    def ask(self, method: str, url: httpx.URL, body: Any = None) -> bytes:
        """The body of the answer; a `SchemaError` where there is none of status 200 within the limits."""
        content: Any = {} if body is None else {"json": body}
        end_s = time.monotonic() + self._timeout_s
        try:
            with self._client.stream(method, url, **content) as response:
                answer = self._body(response, end_s)
        except (httpx.TimeoutException, TimeoutError):
            raise SchemaError(f"the service at {self.place} gave no answer in time") from None
        except httpx.HTTPError as error:
            raise SchemaError(f"the service at {self.place} cannot be asked: {error}") from None
        if response.status_code != httpx.codes.OK:
            text = answer[:_BODY_SHOWN_BYTES].decode(errors="replace")
            raise SchemaError(f"the service at {self.place} answered with status {response.status_code}: {text}")
        return answer

    def close(self) -> None:
        self._client.close()

    def _body(self, response: httpx.Response, end_s: float) -> bytes:
        """The body as it was sent. httpx limits the time of a piece only, and a service can send pieces for hours."""
        body = bytearray()
        for piece in response.iter_raw():
            body += piece
            if time.monotonic() > end_s:
                raise TimeoutError
            if len(body) > self._bytes_max:
                raise SchemaError(f"the service at {self.place} answered with more than {self._bytes_max:,} bytes")
        return bytes(body)


class ExternalHttpSchema:
    kind = EXTERNAL_HTTP
    may_block = True

    def __init__(self, name: str, service: HttpService, outbound: Outbound | None = None) -> None:
        self.name = name
        self._service = service
        outbound = outbound or Outbound(service.outbound)
        self._client = ServiceClient(service, outbound.dialer(f"schema_registry.schemas.{name}"))

    def decode(self, data: bytes, message_type: str | None = None) -> Value:
        return string_of(self._ask("decode", data))

    def encode(self, value: Value, message_type: str | None = None) -> bytes:
        """See `Schema.encode`; what is no string is sent as its JSON text."""
        return self._ask("encode", _content(value))

    def check(self, data: Value, message_type: str | None = None) -> str | None:
        try:
            self._ask("decode" if isinstance(data, str | bytes) else "encode", _content(data))
        except SchemaError as error:
            return str(error)
        return None

    def close(self) -> None:
        self._client.close()

    def _ask(self, kind: str, data: bytes) -> bytes:
        options = {"type": kind, "schema_name": self.name, "opts": self._service.external_params}
        client = self._client
        if self._service.method == "get":
            payload = urlsafe_b64encode(data).rstrip(b"=").decode()
            body = client.ask("GET", client.url.copy_merge_params({"payload": payload, **options}))
        else:
            body = client.ask("POST", client.url, {"payload": b64encode(data).decode(), **options})
        try:
            return b64decode(body.strip(), validate=True)
        except (binascii.Error, ValueError):
            raise SchemaError(f"the service at {client.place} answered with something that is not base64") from None

    def __repr__(self) -> str:
        return f"ExternalHttpSchema({self.name}: {self._client.place})"


def _content(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return (value if isinstance(value, str) else encode_json(value)).encode()
    except EvaluationFault as fault:
        raise SchemaError(str(fault)) from None
