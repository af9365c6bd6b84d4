"""Payloads to values and back, as the decoders and encoders of transformations say."""

from collections.abc import Callable

from heliograph.config import PayloadCoding
from heliograph.message_policies.errors import TransformationFault
from heliograph.message_policies.schemas import find_schema
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.schemas import SchemaError, SchemaRegistry
from heliograph.rules.values import Value, bytes_of, describe

Coding = Callable[[Value], Value]
"""A payload before and after; raises `TransformationFault` for one that does not fit."""


def compile_decoder(settings: PayloadCoding, path: tuple[str, ...], schemas: SchemaRegistry) -> Coding | None:
    """What decodes payloads; None for nothing.

    Args:
        path: Where the settings stand.

    Raises:
        MessagePolicyError: There is no such schema, or it cannot be used here.
    """
    if settings.type == "none":
        return None
    if settings.type == "json":
        return _decode_json
    find_schema(schemas, settings.type, settings.schema, settings.message_type, path)
    name, message_type = settings.schema, settings.message_type or None

    def decode(payload: Value) -> Value:
        schema = schemas.get(name)
        if schema.may_block:
            raise TransformationFault(f"the schema {name!r} may keep the broker waiting")
        return schema.decode(_data(payload), message_type)

    return _translated(decode, f"{settings.type} schema {name}")


def compile_encoder(settings: PayloadCoding, path: tuple[str, ...], schemas: SchemaRegistry) -> Coding | None:
    """What encodes payloads; None for nothing.

    Args:
        path: Where the settings stand.

    Raises:
        MessagePolicyError: There is no such schema, or it cannot be used here.
    """
    if settings.type == "none":
        return None
    if settings.type == "json":
        return _translated(lambda payload: encode_json(payload).encode(), "JSON")
    find_schema(schemas, settings.type, settings.schema, settings.message_type, path)
    name, message_type = settings.schema, settings.message_type or None

    def encode(payload: Value) -> Value:
        schema = schemas.get(name)
        if schema.may_block:
            raise TransformationFault(f"the schema {name!r} may keep the broker waiting")
        return schema.encode(payload, message_type)

    return _translated(encode, f"{settings.type} schema {name}")


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
