"""Schemas as validations and transformations need them: there, of the kind that is meant, and never waiting."""

from heliograph.message_policies.errors import MessagePolicyError
from heliograph.rules.schemas import Schema, SchemaError, SchemaRegistry
from heliograph.rules.schemas.interface import SPARKPLUG_B
from heliograph.rules.schemas.settings import PROTOBUF


def find_schema(schemas: SchemaRegistry, kind: str, name: str, message_type: str, path: tuple[str, ...]) -> Schema:
    try:
        schema = schemas.upcoming.get(name)
    except SchemaError as error:
        raise MessagePolicyError((*path, "schema"), str(error)) from None
    if schema.may_block:
        raise MessagePolicyError(
            (*path, "schema"),
            f"the schema {name!r} ({schema.kind}) asks another service, and a publish does not wait for an answer",
        )
    if schema.kind != kind and not (schema.kind == SPARKPLUG_B and kind == PROTOBUF):
        raise MessagePolicyError((*path, "schema"), f"the schema {name!r} is of type {schema.kind}, not {kind}")
    known = getattr(schema, "message_types", None)
    if message_type and known is not None and message_type not in known:
        names = ", ".join(getattr(schema, "message_names", ())) or "none"
        raise MessagePolicyError(
            (*path, "message_type"), f"the schema {name!r} has no message {message_type!r}; there are: {names}"
        )
    return schema
