"""Schemas in pipelines: the section `schemas` of a pipeline file, and payloads as typed columns.

The section says what `schema_registry.schemas` of a node's configuration says, in the same words. What is read travels
to Spark's workers as `SchemaSettings`, which make the schemas when they first need them.
"""

from functools import lru_cache
from typing import Any

import pyarrow as pa

from heliograph.config.kinds import NAME
from heliograph.config.reading import read_group
from heliograph.config.schemas import SchemaConfig, schema_fault
from heliograph.pipeline.files.section import Section
from heliograph.rules.schemas.avro import AvroSchema
from heliograph.rules.schemas.configured import schema_settings
from heliograph.rules.schemas.interface import Schema, SchemaError
from heliograph.rules.schemas.protobuf import ProtobufSchema
from heliograph.rules.schemas.settings import SchemaSettings, SchemaSourceError, build_schema


def read_schemas(section: Section, key: str = "schemas") -> tuple[SchemaSettings, ...]:
    """Read the schemas of a pipeline file.

    Args:
        section: The file, or what else holds the section.
        key: The section's name.

    Returns:
        The settings in the order of the file; none where the section is not there.

    Raises:
        RuleFileError: It says something that is not valid, or a schema does not compile; with file and line.
    """
    named = section.section(key)
    if named is None:
        return ()
    found = []
    for name, node in named.fields.items():
        if NAME.fullmatch(name) is None:
            raise named.mistake(f"{name!r} is not a name: names have letters, digits, _ and -", node)
        schema, problems = read_group(SchemaConfig, node, (*named.path.split("."), name))
        if problems:
            raise section.mistake(f"{problems[0].path}: {problems[0].message}", node)
        fault = schema_fault(schema) if schema != SchemaConfig() else "it needs type and source"
        if fault is not None:
            raise section.mistake(f"{named.path}.{name}: {fault}", node)
        settings = schema_settings(name, schema)
        try:
            build_schema(settings)
        except SchemaSourceError as error:
            raise section.mistake(f"{named.path}.{name}: {error}", node) from None
        found.append(settings)
    return tuple(found)


@lru_cache(maxsize=64)
def built_schema(settings: SchemaSettings) -> Schema:
    """The schema of settings, made once in a process: what workers call.

    Raises:
        SchemaSourceError: It cannot be made.
    """
    return build_schema(settings)


def arrow_type(schema: Schema, message_type: str | None = None) -> pa.DataType:
    """The Arrow type of a decoded payload.

    Raises:
        SchemaError: The schema has no columns (its type is neither avro nor protobuf), or it has no such message.
    """
    return _columns(schema, message_type).type


def decode_column(schema: Schema, payloads: pa.Array, message_type: str | None = None) -> pa.Array:
    """Decode a column of payloads at once.

    Args:
        schema: An Avro or Protobuf schema.
        payloads: Payloads as `binary`.
        message_type: The message of a Protobuf schema; None for the only one.

    Returns:
        A column of `arrow_type`, with null for a payload that does not fit the schema.

    Raises:
        SchemaError: The schema has no columns, or it has no such message.
    """
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
