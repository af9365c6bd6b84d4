"""What is wrong with the policies of a configuration that only languages and schemas know, each with its place."""

from collections.abc import Iterator

from heliograph.config.settings import Config
from heliograph.message_policies.checks import compile_sql
from heliograph.message_policies.errors import MessagePolicyError
from heliograph.message_policies.operations import compile_operation
from heliograph.message_policies.schemas import find_schema
from heliograph.mqtt.topic import MAX_TOPIC_BYTES
from heliograph.rules.environment import Environment
from heliograph.rules.schemas import SchemaRegistry
from heliograph.rules.schemas.configured import schema_settings
from heliograph.rules.schemas.interface import SPARKPLUG_B
from heliograph.rules.schemas.registry import build_schema
from heliograph.rules.schemas.settings import PROTOBUF, SchemaSourceError

Path = tuple[str, ...]


def policy_faults(config: Config) -> Iterator[tuple[Path, str]]:
    yield from _message_faults(config)
    environment = Environment()
    for number, validation in enumerate(config.schema_validation.validations, 1):
        for position, check in enumerate(validation.checks, 1):
            if check.type == "sql":
                path = ("schema_validation", "validations", str(number), "checks", str(position), "sql")
                try:
                    compile_sql(check.sql, path, environment)
                except MessagePolicyError as error:
                    yield error.path, error.problem
    for number, transformation in enumerate(config.message_transformation.transformations, 1):
        for position, operation in enumerate(transformation.operations, 1):
            place = ("message_transformation", "transformations", str(number), "operations", str(position))
            try:
                compile_operation(operation, place, lambda: MAX_TOPIC_BYTES, environment)
            except MessagePolicyError as error:
                yield error.path, error.problem


def _message_faults(config: Config) -> Iterator[tuple[Path, str]]:
    """Protobuf message types that the settings name and their schemas do not have."""
    schemas: dict[str, SchemaRegistry] = {}
    for path, name, message_type in _messages(config):
        settings = config.schema_registry.schemas.get(name)
        if name != SPARKPLUG_B and (settings is None or settings.type != PROTOBUF):
            continue  # the configuration itself knows that
        try:
            if name not in schemas:
                made = [] if settings is None else [build_schema(schema_settings(name, settings))]
                schemas[name] = SchemaRegistry(made)
            find_schema(schemas[name], PROTOBUF, name, message_type, path)
        except SchemaSourceError:
            continue  # `schema_faults` reports it
        except MessagePolicyError as error:
            yield error.path, error.problem


def _messages(config: Config) -> Iterator[tuple[Path, str, str]]:
    """Where settings name a message type of a schema: path, schema, message type."""
    for number, validation in enumerate(config.schema_validation.validations, 1):
        for position, check in enumerate(validation.checks, 1):
            if check.message_type:
                checked = ("schema_validation", "validations", str(number), "checks", str(position))
                yield checked, check.schema, check.message_type
    for number, transformation in enumerate(config.message_transformation.transformations, 1):
        codings = {"payload_decoder": transformation.payload_decoder, "payload_encoder": transformation.payload_encoder}
        for key, coding in codings.items():
            if coding.message_type:
                path = ("message_transformation", "transformations", str(number), key)
                yield path, coding.schema, coding.message_type
