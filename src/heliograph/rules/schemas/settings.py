"""What makes a schema, as plain texts that travel to Spark's workers, and the schemas that it makes.

Where the texts come from is not known here: `heliograph.config.schemas` reads them from configuration files.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final

from heliograph.rules.schemas.interface import INSTALLED, Schema

AVRO: Final[str] = "avro"
PROTOBUF: Final[str] = "protobuf"
JSON: Final[str] = "json"
EXTERNAL_HTTP: Final[str] = "external_http"
#: A registry of Confluent's kind, which stands among the schemas by its name.
CONFLUENT: Final[str] = "confluent"

TYPES: Final = (AVRO, PROTOBUF, JSON, EXTERNAL_HTTP)


class SchemaSourceError(Exception):
    """A schema cannot be made of its source; the message is the compiler's, with the place in the source."""

    code: ClassVar[str] = "schema_source"


@dataclass(frozen=True, slots=True)
class HttpService:
    """A service that encodes and decodes.

    Attributes:
        url: Where it is asked.
        method: `post` or `get`.
        headers: Names and values of headers that each request carries.
        external_params: What each request tells it as `opts`.
        connect_timeout_s: How long to wait for a connection.
        request_timeout_s: How long to wait for an answer.
        retries_max: How often a request is repeated for which no connection could be made.
        pool_size: Connections at most.
        response_bytes_max: Largest answer that is taken.
        ca_file: Certificate authorities to trust; empty for those of the system.
        verify: Whether its certificate is verified.
        basic_auth: User name and password.
    """

    url: str
    method: str = "post"
    headers: tuple[tuple[str, str], ...] = ()
    external_params: str = ""
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 10.0
    retries_max: int = 2
    pool_size: int = 8
    response_bytes_max: int = 1 << 20
    ca_file: str = ""
    verify: bool = True
    basic_auth: tuple[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """What makes one schema; it can be pickled, compared and hashed.

    Attributes:
        name: Its name in the registry.
        type: One of `TYPES`.
        files: Path and text of each file of its source; a source that is one text is one file.
        root: Path of the file that imports the others.
        service: The service of an external schema.
    """

    name: str
    type: str
    files: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    root: str = ""
    service: HttpService | None = field(default=None, repr=False)

    @staticmethod
    def of_text(name: str, kind: str, source: str) -> "SchemaSettings":
        """The settings of a schema whose source is one text."""
        return SchemaSettings(name, kind, (("schema", source),), "schema")

    @property
    def source(self) -> str:
        """The text of the root file."""
        return dict(self.files).get(self.root, "")


def build_schema(settings: SchemaSettings) -> Schema:
    """Make the schema.

    Raises:
        SchemaSourceError: It cannot be made.
    """
    # What a process does not use it does not import: each kind brings a library of its own.
    if settings.type == AVRO:
        from heliograph.rules.schemas.avro import AvroSchema

        return AvroSchema(settings.name, settings.source)
    if settings.type == PROTOBUF:
        from heliograph.rules.schemas.protobuf import ProtobufSchema

        return ProtobufSchema(settings.name, dict(settings.files), settings.root)
    if settings.type == JSON:
        from heliograph.rules.schemas.json_schema import JsonSchema

        return JsonSchema(settings.name, settings.source)
    if settings.service is None:
        raise SchemaSourceError(f"there is no type {settings.type!r}; there are: {', '.join(TYPES)}")
    if settings.type == CONFLUENT:
        from heliograph.rules.schemas.confluent import ConfluentRegistry

        return ConfluentRegistry(settings.name, settings.service)
    from heliograph.rules.schemas.external_http import ExternalHttpSchema

    return ExternalHttpSchema(settings.name, settings.service)


def build(settings: Iterable[SchemaSettings]) -> list[Schema]:
    """Make the schemas.

    Raises:
        SchemaSourceError: One cannot be made; the message begins with its name.
    """
    schemas = []
    for one in settings:
        try:
            schemas.append(build_schema(one))
        except SchemaSourceError as error:
            raise SchemaSourceError(f"schema {one.name}: {error}") from None
    return schemas


@lru_cache(maxsize=16)
def _built(settings: tuple[SchemaSettings, ...]) -> tuple[Schema, ...]:
    return tuple(build(settings))


_installed: tuple[SchemaSettings, ...] | None = None


def ensure_installed(settings: tuple[SchemaSettings, ...]) -> None:
    """Have the registry of this process hold these schemas; what Spark's workers call before they evaluate rules.

    It costs next to nothing when they are there already, and schemas that were made once are kept. Not for a process
    that builds its registry itself, as a broker does.

    Raises:
        SchemaSourceError: One cannot be made.
    """
    global _installed
    if settings is _installed or not settings:
        return
    if settings != _installed:
        INSTALLED.replace(_built(settings))
    _installed = settings
