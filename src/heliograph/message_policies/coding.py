"""Payloads to values and back, as the decoders and encoders of transformations say."""

from collections.abc import Callable

from heliograph.config import PayloadCoding
from heliograph.message_policies.errors import TransformationFault
from heliograph.message_policies.schemas import find_schema
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.schemas import Schema, SchemaError, SchemaRegistry
from heliograph.rules.values import Value, bytes_of, describe

_Code = Callable[[Schema, Value, str | None], Value]

Coding = Callable[[Value], Value]
"""A payload before and after; raises `TransformationFault` for one that does not fit."""


def compile_decoder(settings: PayloadCoding, path: tuple[str, ...], schemas: SchemaRegistry) -> Coding | None:
    """What decodes payloads; None for nothing.

    Raises:
        MessagePolicyError: There is no such schema, or it cannot be used here.
    """
    if settings.type == "json":
        return _decode_json
    return _by_schema(settings, path, schemas, _decode)


def compile_encoder(settings: PayloadCoding, path: tuple[str, ...], schemas: SchemaRegistry) -> Coding | None:
    """What encodes payloads; None for nothing.

    Raises:
        MessagePolicyError: There is no such schema, or it cannot be used here.
    """
    if settings.type == "json":
        return _translated(lambda payload: encode_json(payload).encode(), "JSON")
    return _by_schema(settings, path, schemas, _encode)


def _by_schema(settings: PayloadCoding, path: tuple[str, ...], schemas: SchemaRegistry, code: _Code) -> Coding | None:
    if settings.type == "none":
        return None
    find_schema(schemas, settings.type, settings.schema, settings.message_type, path)
    name, message_type = settings.schema, settings.message_type or None

    def coding(payload: Value) -> Value:
        # The registry is read each time: a schema may be replaced while the node runs.
        schema = schemas.get(name)
        if schema.may_block:
            raise TransformationFault(f"the schema {name!r} may keep the broker waiting")
        return code(schema, payload, message_type)

    return _translated(coding, f"{settings.type} schema {name}")


def _decode(schema: Schema, payload: Value, message_type: str | None) -> Value:
    return schema.decode(_data(payload), message_type)


def _encode(schema: Schema, payload: Value, message_type: str | None) -> Value:
    return schema.encode(payload, message_type)


def _decode_json(payload: Value) -> Value:
    try:
        return decode_json(_data(payload))
    except EvaluationFault as fault:
        raise TransformationFault(f"the payload is {fault}") from None


def _data(payload: Value) -> bytes:
    if not isinstance(payload, str | bytes):
        raise TransformationFault(f"the payload is decoded already: it is {describe(payload)}")
    return bytes_of(payload)


def _translated(code: Coding, what: str) -> Coding:
    def translated(payload: Value) -> Value:
        try:
            return code(payload)
        except (SchemaError, EvaluationFault) as error:
            raise TransformationFault(f"the payload does not go with the {what}: {error}") from None

    return translated
