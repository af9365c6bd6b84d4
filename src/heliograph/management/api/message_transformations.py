"""Message transformations: what is made of messages."""

import base64
from typing import Any, Literal

from pydantic import ConfigDict, Field

from heliograph.control.proto_v1.groups import TRANSFORMATIONS
from heliograph.control.proto_v1.policies import TRANSFORMATIONS_DRY_RUN, PolicyTrial
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
from heliograph.management.web.models import Body, Str

area = Area("Message transformation", "Messages are changed before they are stored and delivered.")

_NONE: dict[str, Any] = {"type": "none"}
_DEFAULTS: dict[str, Any] = {"failure_action": "ignore", "payload_decoder": _NONE, "payload_encoder": _NONE}
_EXAMPLE: dict[str, Any] = {
    "name": "by_client",
    "topics": ["t/#"],
    "operations": [{"key": "topic", "value": "concat([clientid, '/', topic])"}],
    "failure_action": "drop",
}
_family = PolicyFamily(TRANSFORMATIONS, lambda plain: with_defaults(plain, {**_DEFAULTS, "operations": []}))


class OperationBody(Body):
    """What is set, and to what."""

    key: Str = Field(min_length=1)
    value: Str = Field(min_length=1)


class CodingBody(Body):
    """How a payload is decoded or encoded."""

    type: Literal["none", "json", "avro", "protobuf"] = "none"
    schema_name: Str | None = Field(default=None, alias="schema", serialization_alias="schema")
    message_type: Str | None = None


class TransformationBody(PolicyBody):
    """A transformation."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]}, serialize_by_alias=True)

    operations: list[OperationBody] = Field(default=[])
    payload_decoder: CodingBody = CodingBody()
    payload_encoder: CodingBody = CodingBody()
    failure_action: Literal["drop", "disconnect", "ignore"] = "ignore"


class TriedTransformation(TransformationBody):
    """A transformation that is tried; it needs no name and no topics."""

    name: Str = "dry_run"
    topics: Str | list[Str] = "#"


class TransformationTrialBody(Body):
    """A transformation and a message."""

    transformation: TriedTransformation
    message: MessageBody


@area.get("/message_transformations", scope="policies:read")
async def list_message_transformations(nodes: NodesDep) -> list[dict[str, Any]]:
    """All transformations in their order."""
    return await _family.all(nodes.own)


@area.post("/message_transformations", scope="policies:write", status=201, errors=INVALID)
async def create_message_transformation(body: TransformationBody, nodes: NodesDep) -> dict[str, Any]:
    """Add a transformation at the end."""
    return await _family.add(nodes.own, body)


@area.put("/message_transformations", scope="policies:write", errors={**REFUSED, **MISSING})
async def put_message_transformation(body: TransformationBody, nodes: NodesDep) -> dict[str, Any]:
    """Change the transformation that the body names."""
    return await _family.update(nodes.own, body)


@area.post("/message_transformations/reorder", scope="policies:write", status=204, errors=REFUSED)
async def reorder_message_transformations(body: OrderBody, nodes: NodesDep) -> None:
    """Set the order of all transformations."""
    await _family.order(nodes.own, body.order)


@area.post("/message_transformations/dryrun", scope="policies:write", errors=REFUSED)
async def dry_run_message_transformation(body: TransformationTrialBody, nodes: NodesDep) -> dict[str, Any]:
    """Try a transformation on a message; nothing is published."""
    message = body.message
    trial = PolicyTrial(body.transformation.text(), message.tried())
    out = await nodes.own.ask(TRANSFORMATIONS_DRY_RUN(trial))
    return {
        "clientid": message.clientid,
        "username": message.username,
        "topic": out.topic,
        "qos": out.qos,
        "retain": out.retain,
        "user_property": dict(out.user_properties),
        **_payload(out.payload),
    }


@area.get("/message_transformations/transformation/{name}", scope="policies:read", errors=MISSING)
async def get_message_transformation(name: str, nodes: NodesDep) -> dict[str, Any]:
    """One transformation."""
    return await _family.one(nodes.own, name)


@area.delete("/message_transformations/transformation/{name}", scope="policies:write", errors={**REFUSED, **MISSING})
async def delete_message_transformation(name: str, nodes: NodesDep) -> None:
    """Delete a transformation."""
    await _family.delete(nodes.own, name)


@area.get("/message_transformations/transformation/{name}/metrics", scope="policies:read", errors=MISSING)
async def get_message_transformation_metrics(name: str, nodes: NodesDep) -> dict[str, Any]:
    """The counters of a transformation."""
    return await _family.metrics(nodes, name)


@area.post(
    "/message_transformations/transformation/{name}/metrics/reset", scope="policies:write", status=204, errors=MISSING
)
async def reset_message_transformation_metrics(name: str, nodes: NodesDep) -> None:
    """Reset the counters of a transformation."""
    await _family.reset(nodes.own, name)


@area.post(
    "/message_transformations/transformation/{name}/enable/{enable}",
    scope="policies:write",
    status=204,
    errors={**REFUSED, **MISSING},
)
async def enable_message_transformation(name: str, enable: Literal["true", "false"], nodes: NodesDep) -> None:
    """Enable or disable a transformation."""
    await _family.switch(nodes.own, name, is_enabled=enable == "true")


def _payload(payload: bytes) -> dict[str, str]:
    """A payload as text; what is no text in base64, which a second key says."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}
