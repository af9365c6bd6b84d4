"""Functions of the schema registry and of Sparkplug B, which is built in."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from heliograph.rules.columns import Columns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import utf8
from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.values import UNDEFINED, Value, bytes_of, describe, string_of

if TYPE_CHECKING:
    from heliograph.rules.schemas.confluent import ConfluentRegistry

FAMILY: Final = Family("Schemas")

_Result = TypeVar("_Result")


def _translated(ask: Callable[[], _Result]) -> _Result:
    try:
        return ask()
    except SchemaError as error:
        raise EvaluationFault(str(error)) from None


def _type(message_type: str | bytes | None) -> str | None:
    return None if message_type is None else utf8(message_type)


def _blocks_on(environment: Environment, schema: Value) -> bool:
    """Whether a schema may wait for a process or service; without a name, whether any of the registry may."""
    known = environment.schemas.upcoming.all()
    asked = known.values() if not isinstance(schema, str) else [known[schema]] if schema in known else []
    return any(one.may_block for one in asked)


@FAMILY.function("S schema, V value[, S message_type]", "S", asks_environment=True, blocks_on=_blocks_on)
def schema_encode(
    environment: Environment, schema: str | bytes, value: Value, message_type: str | bytes | None = None
) -> Value:
    """The bytes of a value by a schema of the registry; Protobuf needs the name of a message."""
    return _translated(lambda: string_of(environment.schemas.get(utf8(schema)).encode(value, _type(message_type))))


@FAMILY.function("S schema, S data[, S message_type]", "V", asks_environment=True, blocks_on=_blocks_on)
def schema_decode(
    environment: Environment, schema: str | bytes, data: str | bytes, message_type: str | bytes | None = None
) -> Value:
    """The value that bytes stand for by a schema of the registry; Protobuf needs the name of a message."""
    return _translated(lambda: environment.schemas.get(utf8(schema)).decode(bytes_of(data), _type(message_type)))


@FAMILY.function("S schema, V data[, S message_type]", "B", asks_environment=True, blocks_on=_blocks_on)
def schema_check(
    environment: Environment, schema: str | bytes, data: Value, message_type: str | bytes | None = None
) -> Value:
    """Whether a string can be decoded by a schema of the registry, or any other value be encoded."""
    return _translated(lambda: environment.schemas.get(utf8(schema)).check(data, _type(message_type)) is None)


def _registry(environment: Environment, name: str | bytes) -> "ConfluentRegistry":
    from heliograph.rules.schemas.confluent import ConfluentRegistry

    found = environment.schemas.get(utf8(name))
    if not isinstance(found, ConfluentRegistry):
        raise EvaluationFault(f"{describe(name)} is a schema of type {found.kind}, not an external registry")
    return found


@FAMILY.function("S registry, V value, I schema_id", "S", asks_environment=True, may_block=True)
def avro_encode(environment: Environment, registry: str | bytes, value: Value, schema_id: int) -> Value:
    """The bytes of a value by an Avro schema of an external registry, without a tag."""
    return _translated(lambda: string_of(_registry(environment, registry).schema(schema_id).encode(value)))


@FAMILY.function("S registry, S data[, I schema_id]", "V", asks_environment=True, may_block=True)
def avro_decode(
    environment: Environment, registry: str | bytes, data: str | bytes, schema_id: int | None = None
) -> Value:
    """The value of bytes by an Avro schema of an external registry; without its number the bytes must be tagged."""
    if schema_id is None:
        return _translated(lambda: _registry(environment, registry).decode(bytes_of(data)))
    return _translated(lambda: _registry(environment, registry).schema(schema_id).decode(bytes_of(data)))


@FAMILY.function("S schema, S registry, V value, S subject", "S", asks_environment=True, may_block=True)
def schema_encode_and_tag(
    environment: Environment, schema: str | bytes, registry: str | bytes, value: Value, subject: str | bytes
) -> Value:
    """The bytes of a value by an Avro schema of our own, with the tag that an external registry has for it."""
    schemas, name = environment.schemas, utf8(schema)
    return _translated(
        lambda: string_of(_registry(environment, registry).tagged(schemas.get(name), value, utf8(subject)))
    )


@FAMILY.function("S registry, S data", "V", asks_environment=True, may_block=True)
def schema_decode_tagged(environment: Environment, registry: str | bytes, data: str | bytes) -> Value:
    """The value of bytes that begin with the tag of an external registry."""
    return _translated(lambda: _registry(environment, registry).decode(bytes_of(data)))


@FAMILY.function("S data[, S message_type]", "M")
def sparkplug_decode(data: str | bytes, message_type: str | bytes | None = None) -> Value:
    """The map of a Sparkplug B payload, as it was sent."""
    from heliograph.rules.schemas.sparkplug import sparkplug_schema

    return _translated(lambda: sparkplug_schema().decode(bytes_of(data), _type(message_type)))


@FAMILY.function("M payload[, S message_type]", "S")
def sparkplug_encode(payload: Value, message_type: str | bytes | None = None) -> Value:
    """The bytes of a Sparkplug B payload."""
    from heliograph.rules.schemas.sparkplug import sparkplug_schema

    return _translated(lambda: string_of(sparkplug_schema().encode(payload, _type(message_type))))


@FAMILY.function("S data[, S message_type]", "M", column="topic", asks_environment=True)
def spb_decode(
    environment: Environment, columns: Columns, data: str | bytes, message_type: str | bytes | None = None
) -> Value:
    """As sparkplug_decode; metrics have the names that their aliases stand for, and their bytes in base64."""
    from heliograph.rules.schemas.sparkplug import EdgeTopic, sparkplug_schema, with_bytes_as_base64

    payload = _translated(lambda: sparkplug_schema().decode(bytes_of(data), _type(message_type)))
    if not isinstance(payload, dict):
        return payload
    topic = columns.get("topic")
    return environment.births.named(
        EdgeTopic.of(topic) if isinstance(topic, str) else None, with_bytes_as_base64(payload)
    )


@FAMILY.function("M payload[, S message_type]", "S")
def spb_encode(payload: dict[str, Value], message_type: str | bytes | None = None) -> Value:
    """As sparkplug_encode, with the bytes of metrics in base64."""
    from heliograph.rules.schemas.sparkplug import sparkplug_schema, with_bytes_of_base64

    return _translated(lambda: string_of(sparkplug_schema().encode(with_bytes_of_base64(payload), _type(message_type))))


@FAMILY.function("S data", "A", column="topic", asks_environment=True)
def spb_metrics(environment: Environment, columns: Columns, data: str | bytes) -> Value:
    """The metrics of a Sparkplug B payload: maps with name, alias, datatype, timestamp and value."""
    from heliograph.rules.schemas.sparkplug import EdgeTopic

    topic = columns.get("topic")
    of = EdgeTopic.of(topic) if isinstance(topic, str) else None
    return _translated(lambda: environment.births.metrics(of, bytes_of(data)))


@FAMILY.function("S data, S name", "V", column="topic", asks_environment=True)
def spb_metric(environment: Environment, columns: Columns, data: str | bytes, name: str | bytes) -> Value:
    """The value of the metric of a name in a Sparkplug B payload; undefined if it is not in it."""
    wanted = utf8(name)
    metrics: Value = spb_metrics(environment, columns, data)
    for metric in metrics if isinstance(metrics, list) else ():
        if isinstance(metric, dict) and metric.get("name") == wanted:
            return metric.get("value", UNDEFINED)
    return UNDEFINED
