"""Schema validations: which messages must look how."""

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.groups import VALIDATIONS
from heliograph.control.proto_v1.policies import VALIDATIONS_DRY_RUN, PolicyTrial
from heliograph.management.api.policies import MessageBody, PolicyBody, PolicyObject, add_policy_routes, with_defaults
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Body, Row, Str

area = Area("Schema validation", "Messages are checked before they are stored and delivered.", scope="policies")

_DEFAULTS: dict[str, Any] = {"strategy": "all_pass", "failure_action": "drop"}
_EXAMPLE: dict[str, Any] = {
    "name": "warm",
    "topics": ["rooms/+/climate"],
    "strategy": "all_pass",
    "failure_action": "drop",
    "checks": [{"type": "sql", "sql": "SELECT payload.temp AS temp WHERE temp < 100"}],
}


class ValidationBody(PolicyBody):
    """A validation."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    strategy: Literal["all_pass", "any_pass"] = "all_pass"
    failure_action: Literal["drop", "disconnect", "ignore"] = "drop"
    checks: list[dict[str, Any]] = Field(description="Each with `type`: sql, json, avro or protobuf", min_length=1)


class TriedValidation(ValidationBody):
    """A validation that is tried; it needs no name and no topics."""

    name: Str = "dry_run"
    topics: Str | list[Str] = "#"


class ValidationTrialBody(Body):
    """A validation and a message."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"validation": _EXAMPLE, "message": {"topic": "rooms/1/climate", "payload": '{"temp": 20}'}}]
        },
    )

    validation: TriedValidation
    message: MessageBody


class CheckVerdict(Row):
    """What one check says of a message."""

    type: str
    passes: bool
    fault: str = Field(description="Why the message does not pass it; empty if it does")


class ValidationVerdict(Row):
    """What a validation says of a message."""

    passes: bool
    fault: str = Field(description="Why the message fails, as the log has it; empty if it passes")
    outcome: Literal["goes_on", "dropped", "disconnected", "not_checked"] = Field(
        description="What the broker would do; `not_checked`: none of the topic filters matches"
    )
    checks: list[CheckVerdict] = Field(description="What each says on its own, in their order")


class ValidationCheckObject(TypedDict):
    """A check of a validation.

    Attributes:
        type: `sql`, `json`, `avro` or `protobuf`.
        schema: The name of a schema; not of `sql`.
        message_type: Of a Protobuf schema.
    """

    type: str
    sql: NotRequired[str]
    schema: NotRequired[str]
    message_type: NotRequired[str]


class ValidationObject(PolicyObject):
    """A validation."""

    strategy: str
    checks: list[ValidationCheckObject]


add_policy_routes(
    area,
    "schema_validations",
    "validation",
    VALIDATIONS,
    ValidationBody,
    ValidationObject,
    lambda plain: with_defaults(plain, _DEFAULTS),
)


@area.post("/heliograph/schema_validations/dryrun", response_model=ValidationVerdict)
async def dry_run_schema_validation(body: ValidationTrialBody, nodes: NodesDep) -> dict[str, Any]:
    """Try a validation on a message; nothing is published, counted or logged."""
    trial = PolicyTrial(body.validation.text(), body.message.tried())
    tried = await nodes.own.ask(VALIDATIONS_DRY_RUN(trial))
    checks = [{"type": one.type, "passes": not one.fault, "fault": one.fault} for one in tried.checks]
    return {"passes": not tried.fault, "fault": tried.fault, "outcome": tried.outcome, "checks": checks}
