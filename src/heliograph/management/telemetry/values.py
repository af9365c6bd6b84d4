"""Attributes, scopes and resources in the form of OTLP."""

import socket
from collections.abc import Mapping, Sequence

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from heliograph import __version__

Value = str | int | float | bool | Sequence[str]


def key_values(attributes: Mapping[str, Value]) -> list[KeyValue]:
    """Attributes."""
    return [KeyValue(key=name, value=_value(value)) for name, value in attributes.items()]


def resource(node: str) -> Resource:
    """Whose spans, points and entries they are."""
    named = {
        "service.name": "heliograph",
        "service.version": __version__,
        "service.instance.id": node,
        "host.name": socket.gethostname(),
    }
    return Resource(attributes=key_values(named))


def scope() -> InstrumentationScope:
    """What made them."""
    return InstrumentationScope(name="heliograph", version=__version__)


def _value(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=one) for one in value]))
