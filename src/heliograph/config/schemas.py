"""Settings of the schema registry: `schema_registry`.

Sources are read here, with the file that names them: a path is relative to the configuration file that holds it. What
they say is looked at by `heliograph.rules.schemas`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heliograph.hocon.values import Content, Node, Plain
from heliograph.settings.fields import named_sections, section, setting
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    Kind,
    RefusedError,
    SecretText,
    Size,
    Text,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

_TYPES: Final = ("avro", "protobuf", "json", "external_http")
_SOURCE_BYTES_MAX: Final = 4 << 20
_BUNDLE_FILES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """The text of a schema, or path and text of several files, of which `root` imports the others; empty for none."""

    files: tuple[tuple[str, str], ...] = ()
    root: str = ""

    @staticmethod
    def of_text(text: str) -> "SchemaSource":
        return SchemaSource((("schema", text),), "schema")


class SchemaType(Choice):
    """What a schema is; empty where that is not said."""

    def __init__(self) -> None:
        super().__init__(*_TYPES)

    def convert(self, value: Content) -> str:
        return "" if value == "" else super().convert(value)


class SourceText(Kind[SchemaSource]):
    """Text, `{ type = file, path }`, `{ type = bundle, root_proto_path }` or `{ type = bundle, files }`."""

    expected = (
        "the text of the schema, { type = file, path = FILE }, { type = bundle, root_proto_path = FILE } or "
        "{ type = bundle, files = [{ path, contents, root }] }"
    )

    def convert(self, value: Content) -> SchemaSource:
        """Paths are relative to the working directory."""
        return self._source(value, Path())

    def read(self, node: Node) -> SchemaSource:
        """Paths are relative to the file that holds them."""
        file = Path((node.source or node.position).source)
        return self._source(node.value, file.parent if file.is_file() else Path())

    def plain(self, value: SchemaSource) -> str:
        return dict(value.files).get(value.root, "")

    def _source(self, value: Content, directory: Path) -> SchemaSource:
        if value == "":
            return SchemaSource()
        if isinstance(value, str) and value.strip():
            return SchemaSource.of_text(_bounded(value))
        if not isinstance(value, dict):
            raise RefusedError
        texts = {key: node.value for key, node in value.items()}
        kind = texts.pop("type", None)
        if kind == "file" and texts.keys() == {"path"}:
            return SchemaSource.of_text(_text_of(directory / _path(texts["path"])))
        if kind == "bundle" and texts.keys() == {"root_proto_path"}:
            return _bundle_on_disk(directory / _path(texts["root_proto_path"]))
        if kind == "bundle" and texts.keys() == {"files"}:
            return _bundle(texts["files"])
        raise RefusedError


def _path(value: Content) -> str:
    if not isinstance(value, str) or not value:
        raise RefusedError("the path must be a text")
    return value


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _bounded(file.read(_SOURCE_BYTES_MAX + 1).decode())
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RefusedError(f"{path} is no UTF-8 text") from None


def _bounded(text: str) -> str:
    if len(text) > _SOURCE_BYTES_MAX:
        raise RefusedError(f"it is longer than {_SOURCE_BYTES_MAX:,} characters")
    return text


def _bundle_on_disk(root: Path) -> SchemaSource:
    """The file with everything below its directory that it could import."""
    directory = root.parent
    texts = {root.name: _text_of(root)}
    for path in sorted(directory.rglob("*.proto")):
        texts[path.relative_to(directory).as_posix()] = _text_of(path)
        if len(texts) > _BUNDLE_FILES_MAX or sum(map(len, texts.values())) > _SOURCE_BYTES_MAX:
            raise RefusedError(
                f"{directory} holds more than {_BUNDLE_FILES_MAX:,} files or {_SOURCE_BYTES_MAX:,} characters of .proto"
            )
    return SchemaSource(tuple(texts.items()), root.name)


def _bundle(value: Content) -> SchemaSource:
    entries = [node.value for node in value] if isinstance(value, list) else []
    texts: dict[str, str] = {}
    roots = []
    for entry in entries:
        if not isinstance(entry, dict) or not {"path", "contents"} <= entry.keys() <= {"path", "contents", "root"}:
            raise RefusedError("each of its files needs path and contents, and one of them root = true")
        path, contents = entry["path"].value, entry["contents"].value
        if not isinstance(path, str) or not isinstance(contents, str) or path in texts:
            raise RefusedError("path and contents of its files must be texts, and each path is there once")
        texts[path] = _bounded(contents)
        if "root" in entry and entry["root"].value is True:
            roots.append(path)
    if len(roots) != 1:
        raise RefusedError(f"one of its files must have root = true, not {len(roots)}")
    return SchemaSource(tuple(texts.items()), roots[0])


class Headers(Kind[tuple[tuple[str, str], ...]]):
    expected = 'an object of texts, as in { "x-api-key" = "secret" }'

    def convert(self, value: Content) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            raise RefusedError
        one_line = Text("a text", r"[^\r\n]*")
        if not all(name.isascii() and name.isprintable() and name for name in value):
            raise RefusedError
        return tuple((name, one_line.convert(node.value)) for name, node in value.items())

    def plain(self, value: tuple[tuple[str, str], ...]) -> dict[str, Plain]:
        return dict(value)


@dataclass(frozen=True, slots=True)
class ExternalHttp:
    url: str = setting(
        Text("a URL as in http://127.0.0.1:9500/serde", r"(https?://\S+)?"), "", "Where it is asked.", is_place=True
    )
    method: str = setting(Choice("post", "get"), "post", "How: with JSON in the body, or with query parameters.")
    headers: tuple[tuple[str, str], ...] = setting(Headers(), (), "Headers of each request.", is_secret=True)
    external_params: str = setting(AnyText(), "", "What each request says as `opts`.")
    connect_timeout: float = setting(Duration(0.001), 10.0, "How long to wait for a connection.")
    request_timeout: float = setting(Duration(0.001), 10.0, "How long to wait for an answer.")
    max_retries: int = setting(Integer(0, 10), 2, "How often a connection that cannot be made is tried again.")
    pool_size: int = setting(Integer(1, 1000), 8, "Connections at most.")
    max_response_size: int = setting(Size(1, 1 << 30), 1 << 20, "Largest answer that is taken.")
    ssl: ClientTls = section(ClientTls, "TLS.")


@dataclass(frozen=True, slots=True)
class SchemaConfig:
    type: str = setting(SchemaType(), "", "What it is.")
    source: SchemaSource = setting(
        SourceText(),
        SchemaSource(),
        "The schema itself, of all types but external_http; paths are relative to the file.",
    )
    description: str = setting(AnyText(), "", "For people.")
    parameters: ExternalHttp = section(ExternalHttp, "The service of type external_http.")


@dataclass(frozen=True, slots=True)
class BasicAuth:
    username: str = setting(Text("a text", r"[^:]*"), "", "User name; empty for none.")
    password: Secret = setting(SecretText(may_be_empty=True), Secret(), "Password.")


@dataclass(frozen=True, slots=True)
class ExternalRegistry:
    type: str = setting(Choice("confluent"), "confluent", "What it is.")
    url: str = setting(
        Text("a URL as in http://127.0.0.1:8081", r"(https?://\S+)?"), "", "Where it is asked.", is_place=True
    )
    auth: BasicAuth = section(BasicAuth, "How the node shows who it is.")
    connect_timeout: float = setting(Duration(0.001), 10.0, "How long to wait for a connection.")
    request_timeout: float = setting(Duration(0.001), 10.0, "How long to wait for an answer.")
    ssl: ClientTls = section(ClientTls, "TLS.")


@dataclass(frozen=True, slots=True)
class SparkplugConfig:
    """Sparkplug B, whose schema is built in."""

    enable_alias_mapping: bool = setting(
        Boolean(), False, "Whether the names of metrics are learned from births, for messages that have aliases only."
    )
    metric_messages: bool = setting(
        Boolean(), False, "Whether each metric is also published as `$sparkplug/<group>/<edge node>/<device>/<metric>`."
    )
    max_aliases: int = setting(
        Integer(1),
        1_000_000,
        "Aliases that are remembered; beyond it the edge nodes that were silent longest are forgotten.",
    )


@dataclass(frozen=True, slots=True)
class SchemaRegistryConfig:
    """Schemas by name, for rules, validations, transformations and the pipeline."""

    schemas: Mapping[str, SchemaConfig] = named_sections(SchemaConfig, (), "The schemas.")
    external: Mapping[str, ExternalRegistry] = named_sections(ExternalRegistry, (), "Registries of others.")
    sparkplug_b: SparkplugConfig = section(SparkplugConfig, "Sparkplug B.")

    def faults(self) -> Iterator[tuple[tuple[str, ...], str]]:
        for name, schema in self.schemas.items():
            fault = schema_fault(schema)
            if fault is not None:
                yield ("schemas", name), fault
        for name, registry in self.external.items():
            if registry == ExternalRegistry():
                continue  # one that says nothing counts as not there
            if name in self.schemas:
                yield ("external", name), f"there is a schema {name} too; choose another name for one of them"
            elif not registry.url:
                yield ("external", name), "a registry needs url"


def schema_fault(schema: SchemaConfig) -> str | None:
    """What a schema lacks, or has that its type does not; one that says nothing counts as not there."""
    if schema == SchemaConfig():
        return None
    if not schema.type:
        return f"a schema needs type: {', '.join(_TYPES)}"
    external = schema.type == "external_http"
    if external and not schema.parameters.url:
        return "a schema of type external_http needs parameters.url"
    if external and schema.source.files:
        return "a schema of type external_http has no source"
    if not external and not schema.source.files:
        return f"a schema of type {schema.type} needs source"
    if not external and schema.parameters != ExternalHttp():
        return f"a schema of type {schema.type} has no parameters"
    return None
