"""What is wrong with the SQL and the expressions of a configuration, each with the place where it stands."""

from collections.abc import Iterator

from heliograph.config import Config
from heliograph.mqtt.topic import MAX_TOPIC_BYTES
from heliograph.rules.guards.checks import compile_sql
from heliograph.rules.guards.errors import GuardError
from heliograph.rules.guards.operations import compile_operation

Path = tuple[str, ...]


def guard_faults(config: Config) -> Iterator[tuple[Path, str]]:
    """Each text that cannot be used: the path of its setting, and what is wrong with it."""
    for number, validation in enumerate(config.schema_validation.validations, 1):
        for position, check in enumerate(validation.checks, 1):
            if check.type == "sql":
                path = ("schema_validation", "validations", str(number), "checks", str(position), "sql")
                try:
                    compile_sql(check.sql, path)
                except GuardError as error:
                    yield error.path, error.problem
    for number, transformation in enumerate(config.message_transformation.transformations, 1):
        for position, operation in enumerate(transformation.operations, 1):
            place = ("message_transformation", "transformations", str(number), "operations", str(position))
            try:
                compile_operation(operation, place, MAX_TOPIC_BYTES)
            except GuardError as error:
                yield error.path, error.problem
