"""Settings of schema validation and message transformation.

Both stand in lists whose order counts, and name the topics that they are for and what happens when they fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.hocon.values import Content
from heliograph.settings.fields import ListOf, list_setting, section, section_list, setting
from heliograph.settings.kinds import AnyText, Boolean, Choice, Kind, RefusedError, Text, TopicFilters

LEVELS: Final = ("error", "warning", "notice", "info", "debug", "none")
_BUILT_IN: Final = {"sparkplug_b": "protobuf"}  # schemas that every registry has
_POLICY_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,255}")
_VALID_CHECKS = (
    "{ type = json, schema = NAME }, { type = avro, schema = NAME }, "
    "{ type = protobuf, schema = NAME, message_type = NAME } and { type = sql, sql = TEXT } are valid"
)
_EXAMPLE: Final = "{ key = topic, value = \"concat([clientid, '/', topic])\" }"
_KEY: Final = re.compile(r"topic|qos|retain|payload(?:\.[^.]+)*|user_property\.[^.]+")


class MessagePolicyName(Text):
    def __init__(self) -> None:
        super().__init__(
            "a name of letters, digits, _, . and -, beginning with a letter or digit", _POLICY_NAME.pattern
        )


@dataclass(frozen=True, slots=True)
class LogFailure:
    level: str = setting(
        Choice(*LEVELS), "info", "Severity of the log entry of a failure, a few of them a minute; none for no entry."
    )


@dataclass(frozen=True, slots=True)
class MessagePolicy:
    name: str = setting(MessagePolicyName(), "", "Its name, in metrics, log entries and events.")
    tags: tuple[str, ...] = list_setting(ListOf(Text()), (), "Words to find it by.")
    description: str = setting(AnyText(), "", "What it is for.")
    enable: bool = setting(Boolean(), True, "Whether it takes part.")
    topics: tuple[str, ...] = setting(TopicFilters(), (), "Which messages it is for.")
    failure_action: str = setting(
        Choice("drop", "disconnect", "ignore"),
        "drop",
        "What happens to a message that fails: it is dropped, its publisher is disconnected too, or nothing.",
    )
    log_failure: LogFailure = section(LogFailure, "How failures are logged.")


def list_faults(policies: Sequence[MessagePolicy], kind: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What entries lack, or share: path below the group of the list, whose name is the plural of `kind`, and fault."""
    root = f"{kind}s"
    seen: dict[str, int] = {}
    for number, policy in enumerate(policies, 1):
        if not policy.name:
            yield (
                (root, str(number)),
                f"the {kind} has no name: give it one, by which its metrics and log entries are found",
            )
            continue
        if policy.name in seen:
            yield (
                (root, str(number), "name"),
                f'found "{policy.name}", which is the name of {kind} {seen[policy.name]} too',
            )
        seen.setdefault(policy.name, number)
        if not policy.topics:
            yield (root, str(number)), f'the {kind} "{policy.name}" has no topics: say which messages it is for'


def schema_fault(kind: str, name: str, types: Mapping[str, str]) -> str | None:
    """Why no schema of that name and kind can be used for a message; `types` are those of the registry."""
    found = _BUILT_IN.get(name) or types.get(name)
    if found is None:
        known = ", ".join(types) or "none"
        return (
            f'found "{name}", but there is no such schema; there are: {known}. Describe it in schema_registry.schemas'
        )
    if found == "external_http":
        return f'found "{name}", which asks another service; a publish does not wait for an answer'
    return None if found == kind else f'found "{name}", which is of type {found}, not {kind}'


def setting_fault(subject: str, needed: Sequence[str], given: Mapping[str, str]) -> str | None:
    """What a group of settings lacks for its type, or has that its type does not; None for nothing.

    Args:
        subject: What the group is, to begin the sentence.
        needed: Which of them its type needs; it has no others.
        given: All of them; empty ones are absent.
    """
    missing = [name for name in needed if not given[name]]
    if missing:
        return f"{subject} needs {' and '.join(missing)} too"
    surplus = [name for name, value in given.items() if value and name not in needed]
    return f"{subject} has no {' and '.join(surplus)}" if surplus else None


@dataclass(frozen=True, slots=True)
class ValidationCheck:
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
        """`schema_types` has the type of each schema of the registry."""
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


class OperationKey(Kind[str]):
    """What of a message an operation sets."""

    expected = "topic, qos, retain, payload, payload.PATH (names joined by dots) or user_property.NAME"

    def convert(self, value: Content) -> str:
        if not isinstance(value, str) or "\0" in value or _KEY.fullmatch(value) is None:
            raise RefusedError
        return value


@dataclass(frozen=True, slots=True)
class PayloadCoding:
    type: str = setting(
        Choice("none", "json", "avro", "protobuf"), "none", "The form of the payload; none leaves it as it is."
    )
    schema: str = setting(Text("the name of a schema"), "", "For avro and protobuf: a schema of the registry.")
    message_type: str = setting(Text("the name of a message"), "", "For protobuf: which message of the schema.")

    def __post_init__(self) -> None:
        needed = {"avro": ("schema",), "protobuf": ("schema", "message_type")}.get(self.type, ())
        given = {"schema": self.schema, "message_type": self.message_type}
        fault = setting_fault(f"type = {self.type}", needed, given)
        if fault is not None:
            raise RefusedError(fault)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that a transformation sets."""

    key: str = setting(OperationKey(), "", "What is set.")
    value: str = setting(Text("a variform expression"), "", "To what: a variform expression over the message.")

    def __post_init__(self) -> None:
        if bool(self.key) != bool(self.value):
            raise RefusedError(f"an operation needs {'value' if self.key else 'key'} too, as in {_EXAMPLE}")


@dataclass(frozen=True, slots=True)
class Transformation(MessagePolicy):
    failure_action: str = setting(
        Choice("ignore", "drop", "disconnect"),
        "ignore",
        "What happens to a message for which it fails: it goes on as it was, it is dropped, or its publisher is "
        "disconnected too.",
    )
    payload_decoder: PayloadCoding = section(PayloadCoding, "How the payload is decoded before the operations.")
    payload_encoder: PayloadCoding = section(PayloadCoding, "How the payload is encoded after the operations.")
    operations: tuple[Operation, ...] = section_list(
        Operation, "What is set; each operation sees what those before it made."
    )


@dataclass(frozen=True, slots=True)
class MessageTransformationConfig:
    """Messages are changed before they are stored and delivered."""

    transformations: tuple[Transformation, ...] = section_list(
        Transformation, "The transformations; a message runs through all that are for its topic, in this order."
    )

    def faults(self, schema_types: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str]]:
        """As `SchemaValidationConfig.faults`."""
        yield from list_faults(self.transformations, "transformation")
        for number, transformation in enumerate(self.transformations, 1):
            for name in ("payload_decoder", "payload_encoder"):
                coding: PayloadCoding = getattr(transformation, name)
                wrong = schema_fault(coding.type, coding.schema, schema_types) if coding.schema else None
                if wrong is not None:
                    yield ("transformations", str(number), name, "schema"), wrong
            for position, operation in enumerate(transformation.operations, 1):
                if not operation.key:
                    place = ("transformations", str(number), "operations", str(position))
                    yield place, f"the operation is empty; it looks like {_EXAMPLE}"
