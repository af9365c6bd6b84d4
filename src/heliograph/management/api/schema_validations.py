"""Schema validations: which messages must look how."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from heliograph.control.proto_v1.groups import VALIDATIONS
from heliograph.control.proto_v1.policies import VALIDATIONS_DRY_RUN, PolicyTrial
from heliograph.management.api.policies import (
    INVALID,
    MISSING,
    REFUSED,
    MessageBody,
    OrderBody,
    PolicyBody,
    PolicyFamily,
    with_defaults,
)
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Body, Row, Str

area = Area("Schema validation", "Messages are checked before they are stored and delivered.")

_DEFAULTS: dict[str, Any] = {"strategy": "all_pass", "failure_action": "drop"}
_EXAMPLE: dict[str, Any] = {
    "name": "warm",
    "topics": ["rooms/+/climate"],
    "strategy": "all_pass",
    "failure_action": "drop",
    "checks": [{"type": "sql", "sql": "SELECT payload.temp AS temp WHERE temp < 100"}],
}
_family = PolicyFamily(VALIDATIONS, lambda plain: with_defaults(plain, _DEFAULTS))


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


@area.get("/schema_validations", scope="policies:read")
async def list_schema_validations(nodes: NodesDep) -> list[dict[str, Any]]:
    """All validations in their order."""
    return await _family.all(nodes.own)


@area.post("/schema_validations", scope="policies:write", status=201, errors=INVALID)
async def create_schema_validation(body: ValidationBody, nodes: NodesDep) -> dict[str, Any]:
    """Add a validation at the end."""
    return await _family.add(nodes.own, body)


@area.put("/schema_validations", scope="policies:write", errors={**REFUSED, **MISSING})
async def put_schema_validation(body: ValidationBody, nodes: NodesDep) -> dict[str, Any]:
    """Change the validation that the body names."""
    return await _family.update(nodes.own, body)


@area.post("/schema_validations/reorder", scope="policies:write", status=204, errors=REFUSED)
async def reorder_schema_validations(body: OrderBody, nodes: NodesDep) -> None:
    """Set the order of all validations."""
    await _family.order(nodes.own, body.order)


@area.post(
    "/heliograph/schema_validations/dryrun", scope="policies:write", response_model=ValidationVerdict, errors=REFUSED
)
async def dry_run_schema_validation(body: ValidationTrialBody, nodes: NodesDep) -> dict[str, Any]:
    """Try a validation on a message; nothing is published, counted or logged."""
    trial = PolicyTrial(body.validation.text(), body.message.tried())
    tried = await nodes.own.ask(VALIDATIONS_DRY_RUN(trial))
    checks = [{"type": one.type, "passes": not one.fault, "fault": one.fault} for one in tried.checks]
    return {"passes": not tried.fault, "fault": tried.fault, "outcome": tried.outcome, "checks": checks}


@area.get("/schema_validations/validation/{name}", scope="policies:read", errors=MISSING)
async def get_schema_validation(name: str, nodes: NodesDep) -> dict[str, Any]:
    """One validation."""
    return await _family.one(nodes.own, name)


@area.delete("/schema_validations/validation/{name}", scope="policies:write", errors={**REFUSED, **MISSING})
async def delete_schema_validation(name: str, nodes: NodesDep) -> None:
    """Delete a validation."""
    await _family.delete(nodes.own, name)


@area.get("/schema_validations/validation/{name}/metrics", scope="policies:read", errors=MISSING)
async def get_schema_validation_metrics(name: str, nodes: NodesDep) -> dict[str, Any]:
    """The counters of a validation."""
    return await _family.metrics(nodes, name)


@area.post("/schema_validations/validation/{name}/metrics/reset", scope="policies:write", status=204, errors=MISSING)
async def reset_schema_validation_metrics(name: str, nodes: NodesDep) -> None:
    """Reset the counters of a validation."""
    await _family.reset(nodes.own, name)


@area.post(
    "/schema_validations/validation/{name}/enable/{enable}",
    scope="policies:write",
    status=204,
    errors={**REFUSED, **MISSING},
)
async def enable_schema_validation(name: str, enable: Literal["true", "false"], nodes: NodesDep) -> None:
    """Enable or disable a validation."""
    await _family.switch(nodes.own, name, is_enabled=enable == "true")
