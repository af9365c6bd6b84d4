"""What makes a schema, as plain texts that travel to Spark's workers; `registry` makes schemas of them.

Where the texts come from is not known here: `heliograph.config.schemas` reads them from configuration files.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from heliograph.settings.outbound import OutboundConfig
from heliograph.settings.tls import ClientTls

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
        external_params: What each request tells it as `opts`.
        retries_max: How often a request is repeated for which no connection could be made.
        outbound: Where it may be, for processes to which no node says it.
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
    tls: ClientTls = field(default_factory=ClientTls)
    basic_auth: tuple[str, str] | None = field(default=None, repr=False)
    outbound: OutboundConfig = field(default_factory=OutboundConfig)


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """What makes one schema; it can be pickled, compared and hashed.

    Attributes:
        files: Path and text of each file of its source; a source that is one text is one file.
        root: Path of the file that imports the others.
    """

    name: str
    type: str
    files: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    root: str = ""
    service: HttpService | None = field(default=None, repr=False)

    @staticmethod
    def of_text(name: str, kind: str, source: str) -> "SchemaSettings":
        return SchemaSettings(name, kind, (("schema", source),), "schema")

    @property
    def source(self) -> str:
        return dict(self.files).get(self.root, "")


def with_outbound(settings: SchemaSettings, outbound: OutboundConfig) -> SchemaSettings:
    """The same schema, whose service may be where `outbound` allows."""
    service = settings.service
    return settings if service is None else replace(settings, service=replace(service, outbound=outbound))
