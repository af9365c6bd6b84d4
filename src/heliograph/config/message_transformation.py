"""Settings of message transformation: what is changed in messages before they are delivered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.config.message_policies import (
    MessagePolicy,
    list_faults,
    schema_fault,
    setting_fault,
)
from heliograph.hocon.values import Content
from heliograph.settings.fields import section, section_list, setting
from heliograph.settings.kinds import Choice, Kind, RefusedError, Text

_EXAMPLE: Final = "{ key = topic, value = \"concat([clientid, '/', topic])\" }"
_KEY: Final = re.compile(r"topic|qos|retain|payload(?:\.[^.]+)*|user_property\.[^.]+")


class OperationKey(Kind[str]):
    """What of a message an operation sets."""

    expected = "topic, qos, retain, payload, payload.PATH (names joined by dots) or user_property.NAME"

    def convert(self, value: Content) -> str:
        """The text as it is."""
        if not isinstance(value, str) or "\0" in value or _KEY.fullmatch(value) is None:
            raise RefusedError
        return value


@dataclass(frozen=True, slots=True)
class PayloadCoding:
    """How a payload is decoded or encoded."""

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
    """One transformation: what is made of messages to its topics."""

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
        """What is missing, or there twice: the path below this group, and what is wrong.

        Args:
            schema_types: The type of each schema of the registry.
        """
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
