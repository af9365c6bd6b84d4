"""Settings of schema validation: which messages must look how, and what happens to those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from heliograph.config.message_policies import (
    MessagePolicy,
    list_faults,
    schema_fault,
    setting_fault,
)
from heliograph.settings.fields import section_list, setting
from heliograph.settings.kinds import Choice, RefusedError, Text

_VALID_CHECKS = (
    "{ type = json, schema = NAME }, { type = avro, schema = NAME }, "
    "{ type = protobuf, schema = NAME, message_type = NAME } and { type = sql, sql = TEXT } are valid"
)


@dataclass(frozen=True, slots=True)
class ValidationCheck:
    """One check of a validation."""

    type: str = setting(Choice("json", "avro", "protobuf", "sql"), "", "What is checked with.")
    schema: str = setting(Text("the name of a schema"), "", "For json, avro and protobuf: a schema of the registry.")
    message_type: str = setting(Text("the name of a message"), "", "For protobuf: which message of the schema.")
    sql: str = setting(
        Text("a text"), "", "For sql: `SELECT ... WHERE ...` without FROM; the check passes if it selects something."
    )

    def __post_init__(self) -> None:
        if not self.type:
            if self.schema or self.message_type or self.sql:
                raise RefusedError(f"a check needs a type; {_VALID_CHECKS}")
            return
        needed = {"sql": ("sql",), "protobuf": ("schema", "message_type")}.get(self.type, ("schema",))
        given = {"schema": self.schema, "message_type": self.message_type, "sql": self.sql}
        fault = setting_fault(f"a check of type {self.type}", needed, given)
        if fault is not None:
            raise RefusedError(f"{fault}; {_VALID_CHECKS}")


@dataclass(frozen=True, slots=True)
class Validation(MessagePolicy):
    """One validation: what messages to its topics must look like."""

    strategy: str = setting(
        Choice("all_pass", "any_pass"), "all_pass", "Whether a message must pass all checks, or one of them."
    )
    checks: tuple[ValidationCheck, ...] = section_list(ValidationCheck, "The checks, in their order.")


@dataclass(frozen=True, slots=True)
class SchemaValidationConfig:
    """Messages are checked before they are stored and delivered."""

    validations: tuple[Validation, ...] = section_list(
        Validation, "The validations; a message runs through all that are for its topic, in this order."
    )

    def faults(self, schema_types: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str]]:
        """What is missing, or there twice: the path below this group, and what is wrong.

        Args:
            schema_types: The type of each schema of the registry.
        """
        yield from list_faults(self.validations, "validation")
        for number, validation in enumerate(self.validations, 1):
            place = ("validations", str(number))
            if validation.name and not validation.checks:
                yield place, f'the validation "{validation.name}" has no checks; {_VALID_CHECKS}'
            for position, check in enumerate(validation.checks, 1):
                here = (*place, "checks", str(position))
                if not check.type:
                    yield here, f"the check is empty; {_VALID_CHECKS}"
                wrong = schema_fault(check.type, check.schema, schema_types) if check.schema else None
                if wrong is not None:
                    yield (*here, "schema"), wrong
