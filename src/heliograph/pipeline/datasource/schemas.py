"""Schemas in pipelines: the section `schemas` of a pipeline file, and payloads as typed columns.

The section says what `schema_registry.schemas` of a node's configuration says, in the same words; `schema_registry`
itself may stand there too, with registries of others in `external`. What is read travels
to Spark's workers as `SchemaSettings`, which make the schemas when they first need them.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeVar

import pyarrow as pa

from heliograph.config.schemas import ExternalRegistry, SchemaConfig, SchemaRegistryConfig, schema_fault
from heliograph.pipeline.files.section import FileSection
from heliograph.rules.schemas.avro import AvroSchema
from heliograph.rules.schemas.configured import external_registry_settings, schema_settings
from heliograph.rules.schemas.interface import SPARKPLUG_B, Schema, SchemaError
from heliograph.rules.schemas.protobuf import ProtobufSchema
from heliograph.rules.schemas.registry import build_schema
from heliograph.rules.schemas.settings import SchemaSettings, SchemaSourceError
from heliograph.settings.kinds import NAME

_REGISTRY: Final = "schema_registry"
_SCHEMAS: Final = "schemas"
_EXTERNAL: Final = "external"

_Group = TypeVar("_Group")


def read_schemas(document: FileSection) -> tuple[SchemaSettings, ...]:
    """Read the schemas of a pipeline file, or of a node's configuration.

    Returns:
        The settings in the order of the file; none where neither section is there.

    Raises:
        RuleFileError: They say something that is not valid, or a schema does not compile; with file and line.
    """
    found: dict[str, SchemaSettings] = {}
    for section, settings in (*_schemas_in(document), *_registries_in(document)):
        if settings.name == SPARKPLUG_B:
            raise section.mistake(f"the schema {SPARKPLUG_B} is built in; choose another name", settings.name)
        if settings.name in found:
            raise section.mistake(f"the name {settings.name} is given to two schemas", settings.name)
        try:
            build_schema(settings)
        except SchemaSourceError as error:
            raise section.mistake(str(error), settings.name) from None
        found[settings.name] = settings
    return tuple(found.values())


def _schemas_in(document: FileSection) -> Iterator[tuple[FileSection, SchemaSettings]]:
    holders = [document, document.section(_REGISTRY)]
    found = [holder.section(_SCHEMAS) for holder in holders if holder is not None]
    for named in [section for section in found if section is not None]:
        for name in named.fields:
            schema = _group(named, name, SchemaConfig)
            fault = schema_fault(schema) if schema != SchemaConfig() else "it needs type and source"
            if fault is not None:
                raise named.mistake(fault, name)
            yield named, schema_settings(name, schema)


def _registries_in(document: FileSection) -> Iterator[tuple[FileSection, SchemaSettings]]:
    registry = document.section(_REGISTRY)
    if registry is None:
        return
    # Sparkplug's settings are for the node that the file may be of.
    registry.read(SchemaRegistryConfig, others=(_SCHEMAS, _EXTERNAL))
    named = registry.section(_EXTERNAL)
    if named is None:
        return
    for name in named.fields:
        external = _group(named, name, ExternalRegistry)
        if not external.url:
            raise named.mistake("a registry needs url", name)
        yield named, external_registry_settings(name, external)


def _group(named: FileSection, name: str, model: type[_Group]) -> _Group:
    section = named.section(name)
    if NAME.fullmatch(name) is None or section is None:
        raise named.mistake(f"{name!r} is not a name: names have letters, digits, _ and -", name)
    return section.read(model)


@lru_cache(maxsize=64)
def built_schema(settings: SchemaSettings) -> Schema:
    """The schema of settings, made once in a process: what workers call."""
    return build_schema(settings)


def arrow_type(schema: Schema, message_type: str | None = None) -> pa.DataType:
    """The Arrow type of a decoded payload; a `SchemaError` for a type other than Avro and Protobuf."""
    return _columns(schema, message_type).type


def decode_column(schema: Schema, payloads: pa.Array, message_type: str | None = None) -> pa.Array:
    """Decode a column of payloads at once, with null for a payload that does not fit the schema."""
    return _columns(schema, message_type).decode(payloads)


def _columns(schema: Schema, message_type: str | None) -> Any:
    if isinstance(schema, AvroSchema):
        return _avro_columns(schema)
    if isinstance(schema, ProtobufSchema):
        return _protobuf_columns(schema, message_type)
    raise SchemaError(f"a schema of type {schema.kind} has no columns; those of avro and protobuf have")


@lru_cache(maxsize=64)
def _avro_columns(schema: AvroSchema) -> Any:
    from heliograph.pipeline.datasource.avro_columns import AvroColumns

    return AvroColumns(schema)


@lru_cache(maxsize=64)
def _protobuf_columns(schema: ProtobufSchema, message_type: str | None) -> Any:
    from heliograph.pipeline.datasource.protobuf_columns import ProtobufColumns

    return ProtobufColumns(schema.message(message_type))
