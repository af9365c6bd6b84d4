"""What validations and transformations of messages have in common: bodies and routes."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from heliograph.control.proto_v1.groups import (
    GroupOrder,
    GroupSettings,
    GroupShown,
    GroupSwitch,
    NamedGroup,
    OrderedAsks,
)
from heliograph.control.proto_v1.messages import PublishProperties
from heliograph.control.proto_v1.policies import TrialMessage
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Bool, Str, Whole
from heliograph.management.web.payloads import Encoding, payload_bytes

_ONLY_READ: Final = frozenset({"created_at", "last_modified_at"})

T = TypeVar("T")
Settings = dict[str, Any]


class LogFailureBody(Body):
    """How failures are logged."""

    level: Literal["error", "warning", "notice", "info", "debug", "none"] = "info"


class PolicyBody(Body):
    """What both have."""

    name: Str = Field(min_length=1)
    topics: Str | list[Str]
    enable: Bool = True
    description: Str = ""
    tags: list[Str] = Field(default=[])
    log_failure: LogFailureBody = LogFailureBody()

    @model_validator(mode="before")
    @classmethod
    def without_what_was_read(cls, value: Any) -> Any:
        """What was read may be sent back with the keys that only answers have."""
        return (
            {name: one for name, one in value.items() if name not in _ONLY_READ} if isinstance(value, dict) else value
        )

    def settings(self) -> GroupSettings:
        """What the configuration says of it."""
        return GroupSettings(self.name, self.text())

    def text(self) -> str:
        """The same as a text, with its name."""
        return json.dumps(self.model_dump(exclude_none=True), ensure_ascii=False)


class OrderBody(Body):
    """All names in another order."""

    order: list[Str]


class PropertiesBody(BaseModel):
    """MQTT 5 properties by their standard names; others are not used."""

    payload_format_indicator: int | None = Field(default=None, alias="Payload-Format-Indicator", ge=0, le=1)
    message_expiry_interval: int | None = Field(default=None, alias="Message-Expiry-Interval", ge=0, le=0xFFFFFFFF)
    response_topic: Str | None = Field(default=None, alias="Response-Topic")
    correlation_data: Str | None = Field(default=None, alias="Correlation-Data")
    content_type: Str | None = Field(default=None, alias="Content-Type")

    def given(self) -> PublishProperties:
        """The properties as a node takes them."""
        data = self.correlation_data
        return PublishProperties(
            self.payload_format_indicator,
            self.message_expiry_interval,
            self.response_topic,
            None if data is None else data.encode(),
            self.content_type,
        )


class MessageBody(Body):
    """A message that one is tried on."""

    topic: Str = Field(min_length=1)
    payload: Str = ""
    payload_encoding: Encoding = "plain"
    qos: Whole = Field(default=0, ge=0, le=2)
    retain: Bool = False
    clientid: Str = Field(default="dry_run", description="What is known of a client that is connected counts")
    username: Str | None = None
    peername: Str | None = Field(default=None, description="Taken and not used")
    client_attrs: dict[str, Str] | None = Field(default=None, description="Taken and not used")
    pub_props: PropertiesBody | None = None
    user_property: dict[str, Str] = Field(default={})

    def tried(self) -> TrialMessage:
        """The message as a node takes it.

        Raises:
            ApiError: 400, its payload is no base64.
        """
        return TrialMessage(
            self.topic,
            payload_bytes(self.payload, self.payload_encoding),
            self.qos,
            self.retain,
            self.clientid,
            self.username,
            tuple(self.user_property.items()),
            None if self.pub_props is None else self.pub_props.given(),
        )


class FailureLogging(TypedDict):
    """How failures are logged."""

    level: str


class PolicyCounts(TypedDict):
    """What became of messages on one node."""

    node: str
    metrics: dict[str, int]


class PolicyMetrics(TypedDict):
    """What became of the messages that one was for."""

    metrics: dict[str, int]
    node_metrics: list[PolicyCounts]


class PolicyObject(TypedDict):
    """What validations and transformations have."""

    name: str
    topics: list[str]
    enable: bool
    description: str
    tags: list[str]
    log_failure: FailureLogging
    failure_action: str


def add_policy_routes(
    area: Area,
    root: str,
    one: str,
    asks: OrderedAsks,
    body_model: type[PolicyBody],
    answers: Any,
    shown: Callable[[Settings], Settings],
) -> None:
    """Add the routes that validations and transformations share.

    Args:
        root: The path of the list, and the word for one with it: `schema_validations`.
        one: The word for one of them: `validation`.
        asks: What a node is asked.
        body_model: The body of a request that makes or changes one.
        answers: The type of one in answers.
        shown: The settings that the API answers, defaults included.
    """
    kind, item = root.removesuffix("s"), f"/{root}/{one}/{{name}}"
    changes = {"status": 204, "errors": MISSING}

    def row(found: GroupShown) -> Settings:
        return shown(json.loads(found.text))

    @area.get(item, name=f"get_{kind}", description=f"One {one}.", answers=answers, errors=MISSING)
    async def get_one(name: str, nodes: NodesDep) -> Settings:
        with answering():
            return row(await nodes.own.ask(asks.show(NamedGroup(name))))

    @area.get(f"/{root}", name=f"list_{root}", description=f"All {one}s in their order.", answers=list[answers])
    async def get_all(nodes: NodesDep) -> list[Settings]:
        return [row(found) for found in await nodes.own.rows(asks.list())]

    async def create(body: PolicyBody, nodes: NodesDep) -> Settings:
        with answering():
            await nodes.own.ask(asks.add(body.settings()))
        return await get_one(body.name, nodes)

    async def put(body: PolicyBody, nodes: NodesDep) -> Settings:
        with answering():
            await nodes.own.ask(asks.update(body.settings()))
        return await get_one(body.name, nodes)

    for endpoint in (create, put):  # the body that the document shows, and that a request is held against
        endpoint.__annotations__["body"] = body_model
    new = {"status": 201, "answers": answers, "errors": {400: ("ALREADY_EXISTS",)}}
    area.post(f"/{root}", name=f"create_{kind}", description=f"Add a {one} at the end.", **new)(create)
    named = f"Change the {one} that the body names."
    area.put(f"/{root}", name=f"put_{kind}", description=named, answers=answers, errors=MISSING)(put)

    @area.post(f"/{root}/reorder", name=f"reorder_{root}", description=f"Set the order of all {one}s.", status=204)
    async def reorder(body: OrderBody, nodes: NodesDep) -> None:
        there = [found.name for found in await nodes.own.rows(asks.list())]
        faults: dict[str, Any] = {
            "not_found": [name for name in body.order if name not in there],
            "not_reordered": [name for name in there if name not in body.order],
            "duplicated": sorted({name for name in body.order if body.order.count(name) > 1}),
        }
        if any(faults.values()):
            raise ApiError(400, "BAD_REQUEST", "the order has to name each of them once", **faults)
        await nodes.own.ask(asks.order(GroupOrder(tuple(body.order))))

    @area.delete(item, name=f"delete_{kind}", description=f"Delete a {one}.", errors=MISSING)
    async def delete(name: str, nodes: NodesDep) -> None:
        with answering():
            await nodes.own.ask(asks.delete(NamedGroup(name)))

    counters = f"the counters of a {one}."

    @area.get(f"{item}/metrics", name=f"get_{kind}_metrics", description=counters.capitalize(), errors=MISSING)
    async def get_metrics(name: str, nodes: NodesDep) -> PolicyMetrics:
        with answering():
            counts = (await nodes.own.ask(asks.show(NamedGroup(name)))).counts
        return {"metrics": counts, "node_metrics": [{"node": nodes.own.name, "metrics": counts}]}

    @area.post(f"{item}/metrics/reset", name=f"reset_{kind}_metrics", description=f"Reset {counters}", **changes)
    async def reset_metrics(name: str, nodes: NodesDep) -> None:
        with answering():
            await nodes.own.ask(asks.reset(NamedGroup(name)))

    @area.post(f"{item}/enable/{{enable}}", name=f"enable_{kind}", description=f"Enable or disable a {one}.", **changes)
    async def enable(name: str, enable: Literal["true", "false"], nodes: NodesDep) -> None:
        with answering():
            await nodes.own.ask(asks.switch(GroupSwitch(name, enable == "true")))


def with_defaults(plain: Mapping[str, Any], defaults: Mapping[str, Any]) -> Settings:
    """Settings with what they leave out."""
    topics = plain.get("topics", [])
    whole = {"enable": True, "description": "", "tags": [], "log_failure": {"level": "info"}, **defaults, **plain}
    return {**whole, "topics": [topics] if isinstance(topics, str) else topics}
