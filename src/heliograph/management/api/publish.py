"""Publishes messages."""

import base64
import binascii
from typing import Annotated, Any, Final, Literal, NotRequired

from fastapi import Response
from pydantic import Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.messages import (
    MESSAGES_PUBLISH,
    MESSAGES_PUBLISH_ALL,
    NewMessage,
    NewMessages,
    PublishedMessage,
    PublishProperties,
)
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.models import Body, Bool, Str, Whole
from heliograph.management.web.paging import json_response

area = Area("Publish", "Publishing without an MQTT client.")

_UNHEARD: Final = 16
_OTHER: Final = 131
_INVALID: Final = 144
_TOO_LARGE: Final = 151  # as EMQX has it; MQTT names it 149
_MQTT_TOO_LARGE: Final = 149
_REFUSALS: Final = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "reason_code": {"type": "integer", "description": "Why the message is not published"},
        "code": {"type": "string", "description": "In its place, why the request is not valid"},
        "message": {"type": "string"},
    },
}


def _described(words: str) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": _REFUSALS}}}


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    202: _described("It is published, and no subscriber gets it now."),
    400: _described("It cannot be published: its topic (144), its size (151), or the request is not valid."),
    503: _described("It is refused now, or by a rule of the operator."),
}


class SentProperties(Body):
    """The MQTT 5 properties of a message."""

    payload_format_indicator: Annotated[Whole, Field(ge=0, le=1)] | None = None
    message_expiry_interval: Annotated[Whole, Field(ge=0, le=0xFFFFFFFF)] | None = None
    response_topic: Str | None = None
    correlation_data: Str | None = None
    user_properties: dict[str, Str] | None = None
    content_type: Str | None = None


class PublishMessage(Body):
    """A message."""

    topic: Str
    payload: Str
    payload_encoding: Literal["plain", "base64"] = "plain"
    qos: Annotated[Whole, Field(ge=0, le=2)] = 0
    retain: Bool = False
    properties: SentProperties | None = None
    clientid: Annotated[Str | None, Field(deprecated=True, description="Not used: rules see `http_api`.")] = None


class Published(TypedDict):
    """What became of a message that was delivered."""

    id: str


class PublishOutcome(TypedDict):
    """What became of one of several messages: its id, or why it was not published."""

    id: NotRequired[str]
    reason_code: NotRequired[int]
    message: NotRequired[str]


_BULK_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"description": answer["description"], **({"model": list[PublishOutcome]} if status == 202 else {})}
    for status, answer in _ANSWERS.items()
}


@area.post("/publish", scope="publish", answers=Published, responses=_ANSWERS)
async def publish(body: PublishMessage, nodes: NodesDep) -> Response:
    """Publish a message; the answer comes after its commit, if it is stored."""
    new = _new(body)
    if new is None:
        return json_response({"reason_code": _OTHER, "message": "payload: it is not valid base64"}, 400)
    done = await nodes.own.ask(MESSAGES_PUBLISH(new))
    return json_response(_answer(done), _status(done))


@area.post(
    "/publish/bulk",
    scope="publish",
    answers=list[PublishOutcome],
    responses=_BULK_ANSWERS,
)
async def publish_bulk(body: list[PublishMessage], nodes: NodesDep) -> Response:
    """Publish messages in their order; the answer has one entry for each."""
    messages = [_new(one) for one in body]
    sendable = [one for one in messages if one is not None]
    done = iter(await nodes.own.rows(MESSAGES_PUBLISH_ALL(NewMessages(sendable))))
    refused = PublishedMessage("", 0, _OTHER, "payload: it is not valid base64")
    outcomes = [refused if one is None else next(done) for one in messages]
    statuses = {_status(one) for one in outcomes}
    status = 503 if statuses - {200, 202} else 202 if 202 in statuses else 200
    return json_response([_answer(one) for one in outcomes], status)


def _new(body: PublishMessage) -> NewMessage | None:
    """The message as nodes take it; None if its payload is no base64."""
    payload = body.payload.encode("utf-8", "surrogatepass")
    if body.payload_encoding == "base64":
        try:
            payload = base64.b64decode(body.payload, validate=True)
        except (binascii.Error, ValueError):
            return None
    return NewMessage(body.topic, payload, body.qos, body.retain, _properties(body.properties))


def _properties(given: SentProperties | None) -> PublishProperties | None:
    if given is None:
        return None
    return PublishProperties(
        given.payload_format_indicator,
        given.message_expiry_interval,
        given.response_topic,
        None if given.correlation_data is None else given.correlation_data.encode("utf-8", "surrogatepass"),
        given.content_type,
        list((given.user_properties or {}).items()),
    )


def _status(done: PublishedMessage) -> int:
    if done.code == 0:
        return 200
    if done.code == _UNHEARD:
        return 202
    return 400 if done.code in (_INVALID, _MQTT_TOO_LARGE) else 503


def _answer(done: PublishedMessage) -> PublishOutcome:
    if done.code == 0:
        return {"id": done.id.upper()}
    code = _TOO_LARGE if done.code == _MQTT_TOO_LARGE else done.code
    return {"reason_code": code, "message": done.message}
