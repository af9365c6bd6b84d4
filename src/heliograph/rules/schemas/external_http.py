"""Schemas behind a service: each encoding and decoding is one HTTP request, in the form that EMQX uses.

A POST carries `{"payload": base64, "type": "encode" | "decode", "schema_name", "opts"}`, a GET the same as parameters,
with the payload in the URL-safe alphabet without padding. The answer is status 200 and base64.
"""

import binascii
from base64 import b64decode, b64encode, urlsafe_b64encode

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import encode_json
from heliograph.rules.schemas.http_client import ServiceClient
from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.schemas.settings import EXTERNAL_HTTP, HttpService
from heliograph.rules.values import Value, string_of


class ExternalHttpSchema:
    kind = EXTERNAL_HTTP
    may_block = True

    def __init__(self, name: str, service: HttpService) -> None:
        self.name = name
        self._service = service
        self._client = ServiceClient(service)

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
            raise SchemaError(f"the service at {client.url} answered with something that is not base64") from None

    def __repr__(self) -> str:
        return f"ExternalHttpSchema({self.name}: {self._client.url})"


def _content(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return (value if isinstance(value, str) else encode_json(value)).encode()
    except EvaluationFault as fault:
        raise SchemaError(str(fault)) from None
