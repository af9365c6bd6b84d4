"""Message transformations: what is made of messages."""

import base64
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.groups import TRANSFORMATIONS
from heliograph.control.proto_v1.policies import TRANSFORMATIONS_DRY_RUN, PolicyTrial
from heliograph.management.api.policies import MessageBody, PolicyBody, PolicyObject, add_policy_routes, with_defaults
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Body, Str

area = Area("Message transformation", "Messages are changed before they are stored and delivered.", scope="policies")

_NONE: dict[str, Any] = {"type": "none"}
_DEFAULTS: dict[str, Any] = {"failure_action": "ignore", "payload_decoder": _NONE, "payload_encoder": _NONE}
_EXAMPLE: dict[str, Any] = {
    "name": "by_client",
    "topics": ["t/#"],
    "operations": [{"key": "topic", "value": "concat([clientid, '/', topic])"}],
    "failure_action": "drop",
}


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


class TransformationStep(TypedDict):
    """What is set, and to what."""

    key: str
    value: str


class Coding(TypedDict):
    """How a payload is decoded or encoded."""

    type: str
    schema: NotRequired[str]
    message_type: NotRequired[str]


class TransformationObject(PolicyObject):
    """A transformation."""

    operations: list[TransformationStep]
    payload_decoder: Coding
    payload_encoder: Coding


class _Payload(TypedDict):
    payload: str
    payload_encoding: NotRequired[str]


class TransformedMessage(_Payload):
    """A message as a transformation made it."""

    clientid: str
    username: str | None
    topic: str
    qos: int
    retain: bool
    user_property: dict[str, str]


add_policy_routes(
    area,
    "message_transformations",
    "transformation",
    TRANSFORMATIONS,
    TransformationBody,
    TransformationObject,
    lambda plain: with_defaults(plain, {**_DEFAULTS, "operations": []}),
)


@area.post("/message_transformations/dryrun")
async def dry_run_message_transformation(body: TransformationTrialBody, nodes: NodesDep) -> TransformedMessage:
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


def _payload(payload: bytes) -> _Payload:
    """A payload as text; what is no text in base64, which a second key says."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}
