"""What validations and transformations of messages have in common: the routes of one family."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, Field, model_validator

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
from heliograph.management.asking.nodes import Node
from heliograph.management.web.answering import answering
from heliograph.management.web.asked_nodes import AskedNodes
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Bool, Str, Whole
from heliograph.management.web.payloads import Encoding, payload_bytes

MISSING: Final = {404: ("NOT_FOUND",)}
INVALID: Final = {400: ("ALREADY_EXISTS", "BAD_REQUEST")}
REFUSED: Final = {400: ("BAD_REQUEST",)}
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


class PolicyFamily:
    """Asks a node about validations, or about transformations.

    Args:
        asks: What is asked of them.
        shown: What the API shows of settings, defaults included.
    """

    def __init__(self, asks: OrderedAsks, shown: Callable[[Settings], Settings]) -> None:
        self._asks = asks
        self._shown = shown

    async def all(self, node: Node) -> list[Settings]:
        """All in their order."""
        return [self._row(row) for row in await node.rows(self._asks.list())]

    async def one(self, node: Node, name: str) -> Settings:
        """One of them."""
        with answering():
            return self._row(await node.ask(self._asks.show(NamedGroup(name))))

    async def add(self, node: Node, body: PolicyBody) -> Settings:
        """Add one at the end."""
        with answering():
            await node.ask(self._asks.add(body.settings()))
        return await self.one(node, body.name)

    async def update(self, node: Node, body: PolicyBody) -> Settings:
        """Replace the settings of one."""
        with answering():
            await node.ask(self._asks.update(body.settings()))
        return await self.one(node, body.name)

    async def delete(self, node: Node, name: str) -> None:
        """Delete one."""
        with answering():
            await node.ask(self._asks.delete(NamedGroup(name)))

    async def switch(self, node: Node, name: str, *, is_enabled: bool) -> None:
        """Enable or disable one."""
        with answering():
            await node.ask(self._asks.switch(GroupSwitch(name, is_enabled)))

    async def order(self, node: Node, names: list[str]) -> None:
        """Set the order of all.

        Raises:
            ApiError: 400, the order does not name each of them once.
        """
        there = [row.name for row in await node.rows(self._asks.list())]
        faults: dict[str, Any] = {
            "not_found": [name for name in names if name not in there],
            "not_reordered": [name for name in there if name not in names],
            "duplicated": sorted({name for name in names if names.count(name) > 1}),
        }
        if any(faults.values()):
            raise ApiError(400, "BAD_REQUEST", "the order has to name each of them once", **faults)
        await node.ask(self._asks.order(GroupOrder(tuple(names))))

    async def metrics(self, nodes: AskedNodes, name: str) -> dict[str, Any]:
        """What became of the messages that one was for."""
        with answering():
            row = await nodes.own.ask(self._asks.show(NamedGroup(name)))
        return {"metrics": row.counts, "node_metrics": [{"node": nodes.own.name, "metrics": row.counts}]}

    async def reset(self, node: Node, name: str) -> None:
        """Reset the counters of one."""
        with answering():
            await node.ask(self._asks.reset(NamedGroup(name)))

    def _row(self, row: GroupShown) -> Settings:
        return self._shown(json.loads(row.text))


def with_defaults(plain: Mapping[str, Any], defaults: Mapping[str, Any]) -> Settings:
    """Settings with what they leave out."""
    topics = plain.get("topics", [])
    whole = {"enable": True, "description": "", "tags": [], "log_failure": {"level": "info"}, **defaults, **plain}
    return {**whole, "topics": [topics] if isinstance(topics, str) else topics}
