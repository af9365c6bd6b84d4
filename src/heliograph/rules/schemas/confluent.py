"""Schema registries of Confluent's kind: Avro schemas by number, and messages that begin with the number.

A tagged message is a zero byte, the schema's number in four bytes, and the value in Avro's binary encoding.
"""

import threading
import time
from typing import Any, Final, TypeVar
from urllib.parse import quote

import orjson

from heliograph.outbound import Outbound
from heliograph.rules.schemas.avro import AvroSchema
from heliograph.rules.schemas.external_http import ServiceClient
from heliograph.rules.schemas.interface import Schema, SchemaError
from heliograph.rules.schemas.settings import CONFLUENT, HttpService, SchemaSourceError
from heliograph.rules.values import Value, bytes_of

_Found = TypeVar("_Found")

_MAGIC: Final = b"\0"
_TAG_BYTES: Final = 5
_SCHEMAS_MAX: Final = 1000
# An unknown number must not cost the registry a request for each message that carries it.
_UNKNOWN_REST_S: Final = 10.0


class ConfluentRegistry:
    """One external registry, which also is a schema: that of the messages tagged by it.

    Answers are kept, as numbers never change their meaning; a number that is not known is requested again after
    a while.
    """

    kind = CONFLUENT
    may_block = True

    def __init__(self, name: str, service: HttpService, outbound: Outbound | None = None) -> None:
        self.name = name
        outbound = outbound or Outbound(service.outbound)
        self._client = ServiceClient(service, outbound.dialer(f"schema_registry.external.{name}"))
        self._lock = threading.Lock()
        self._schemas: dict[int, AvroSchema] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._unknown: dict[int, tuple[float, str]] = {}

    def decode(self, data: bytes, message_type: str | None = None) -> Value:
        if len(data) < _TAG_BYTES or data[:1] != _MAGIC:
            raise SchemaError("the data is not tagged: it must begin with a zero byte and the number of its schema")
        return self.schema(int.from_bytes(data[1:_TAG_BYTES], "big")).decode(data[_TAG_BYTES:])

    def encode(self, value: Value, message_type: str | None = None) -> bytes:
        """Refused: which schema is meant is not said here."""
        raise SchemaError("name a schema to encode with: avro_encode takes its number, schema_encode_and_tag its name")

    def check(self, data: Value, message_type: str | None = None) -> str | None:
        try:
            self.decode(bytes_of(data) if isinstance(data, str | bytes) else self.encode(data))
        except SchemaError as error:
            return str(error)
        return None

    def schema(self, number: int) -> AvroSchema:
        found = self._schemas.get(number)
        if found is not None:
            return found
        since, problem = self._unknown.get(number, (0.0, ""))
        if problem and time.monotonic() - since < _UNKNOWN_REST_S:
            raise SchemaError(problem)
        try:
            found = self._fetched(number)
        except SchemaError as error:
            self._remember(self._unknown, number, (time.monotonic(), str(error)))
            raise
        return self._remember(self._schemas, number, found)

    def tagged(self, schema: Schema, value: Value, subject: str) -> bytes:
        """A value by an Avro schema of one's own, which is registered if it is not yet, tagged with its number."""
        if not isinstance(schema, AvroSchema):
            raise SchemaError(f"the schema {schema.name!r} is of type {schema.kind}, not avro")
        data = schema.encode(value)
        source = orjson.dumps(schema.tree).decode()
        number = self._numbers.get((subject, source))
        if number is None:
            url = self._url(f"subjects/{quote(subject, safe='')}/versions")
            number = _field(self._client.ask("POST", url, {"schema": source}), "id", int)
            self._remember(self._numbers, (subject, source), number)
        return _MAGIC + number.to_bytes(4, "big") + data

    def close(self) -> None:
        self._client.close()

    def _fetched(self, number: int) -> AvroSchema:
        if not 0 <= number < 1 << 31:
            raise SchemaError(f"{number} is no number of a schema")
        answer = self._client.ask("GET", self._url(f"schemas/ids/{number}"))
        kind = _field(answer, "schemaType", str, "AVRO")
        if kind != "AVRO":
            raise SchemaError(f"the schema {number} of the registry {self.name} is of type {kind}, not AVRO")
        try:
            return AvroSchema(f"{self.name}/{number}", _field(answer, "schema", str))
        except SchemaSourceError as error:
            raise SchemaError(f"the schema {number} of the registry {self.name} cannot be used: {error}") from None

    def _url(self, path: str) -> Any:
        return self._client.url.join(f"{self._client.url.path.rstrip('/')}/{path}")

    def _remember(self, table: dict[Any, Any], key: object, found: _Found) -> _Found:
        with self._lock:
            if len(table) >= _SCHEMAS_MAX:
                table.clear()
            table[key] = found
        return found

    def __repr__(self) -> str:
        return f"ConfluentRegistry({self.name}: {self._client.place})"


def _field(answer: bytes, name: str, kind: type[_Found], default: _Found | None = None) -> _Found:
    try:
        fields = orjson.loads(answer)
    except orjson.JSONDecodeError:
        fields = None
    value = fields.get(name, default) if isinstance(fields, dict) else None
    if type(value) is not kind:
        raise SchemaError(f"the registry answered without {name}")
    return value
