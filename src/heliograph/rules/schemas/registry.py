"""Schemas by name: the registry in which rules, validations, transformations and Spark find them, and their making."""

from collections.abc import Iterable, Mapping

from heliograph.outbound import Outbound
from heliograph.rules.schemas.interface import SPARKPLUG_B, Connected, Schema, SchemaError
from heliograph.rules.schemas.settings import AVRO, CONFLUENT, JSON, PROTOBUF, TYPES, SchemaSettings, SchemaSourceError


class SchemaRegistry:
    """Schemas by name. Owned by the environment of rules, which belongs to a node, a command or a worker of Spark."""

    def __init__(self, schemas: Iterable[Schema] = ()) -> None:
        self._schemas: dict[str, Schema] = {schema.name: schema for schema in schemas}
        self._upcoming: SchemaRegistry | None = None

    def get(self, name: str) -> Schema:
        """The schema of that name; `sparkplug_b` is built in."""
        schema = self._schemas.get(name)
        if schema is None and name == SPARKPLUG_B:
            # Imported, and compiled, on first use: few nodes use it.
            from heliograph.rules.schemas.sparkplug import sparkplug_schema

            return sparkplug_schema()
        if schema is None:
            known = ", ".join(self._schemas) or "none"
            raise SchemaError(f"there is no schema {name!r}; there are: {known}")
        return schema

    def all(self) -> Mapping[str, Schema]:
        return self._schemas

    # --- other schemas, while rules and policies use these

    @property
    def upcoming(self) -> "SchemaRegistry":
        """The schemas for what is being compiled: between `prepare` and `apply` the new ones, otherwise these."""
        return self._upcoming or self

    @property
    def is_changing(self) -> bool:
        return self._upcoming is not None

    def prepare(self, schemas: Iterable[Schema]) -> None:
        """Make other schemas ready, which `apply` puts into the place of these; `undo` closes those that are new."""
        self._upcoming = SchemaRegistry(schemas)

    def apply(self) -> None:
        """Use the schemas that are ready, and close those that are not among them."""
        if self._upcoming is not None:
            before, self._schemas, self._upcoming = self._schemas, self._upcoming._schemas, None
            _close(before, self._schemas)

    def undo(self) -> None:
        """Keep these schemas, and close the others."""
        if self._upcoming is not None:
            _close(self._upcoming._schemas, self._schemas)
            self._upcoming = None

    def close(self) -> None:
        _close(self._schemas, {})

    def __repr__(self) -> str:
        return f"SchemaRegistry({', '.join(self._schemas)})"


def _close(schemas: Mapping[str, Schema], keep: Mapping[str, Schema]) -> None:
    for name, schema in schemas.items():
        if isinstance(schema, Connected) and keep.get(name) is not schema:
            schema.close()


def build_schema(settings: SchemaSettings, outbound: Outbound | None = None) -> Schema:
    """Make a schema; a service is asked where `outbound` allows, or else as its settings say."""
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

        return ConfluentRegistry(settings.name, settings.service, outbound)
    from heliograph.rules.schemas.external_http import ExternalHttpSchema

    return ExternalHttpSchema(settings.name, settings.service, outbound)


def build(settings: Iterable[SchemaSettings], outbound: Outbound | None = None) -> list[Schema]:
    """Make the schemas, as `build_schema` does."""
    schemas = []
    for one in settings:
        try:
            schemas.append(build_schema(one, outbound))
        except SchemaSourceError as error:
            raise SchemaSourceError(f"schema {one.name}: {error}") from None
    return schemas
