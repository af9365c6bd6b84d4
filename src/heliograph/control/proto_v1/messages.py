"""Messages that are published on an operator's behalf."""

from typing import Annotated

import msgspec

from heliograph.rpc.asks import ACTS, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args

Qos = Annotated[int, msgspec.Meta(ge=0, le=2)]
Text = Annotated[str, msgspec.Meta(max_length=16_383)]  # 65,535 bytes in UTF-8 at the most
Flag = Annotated[int, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]
Binary = Annotated[bytes, msgspec.Meta(max_length=65_535)]


class PublishProperties(Args, frozen=True):
    """The MQTT 5 properties of a message; None for those that it has not."""

    payload_format_indicator: Flag | None = None
    message_expiry_interval: Seconds | None = None
    response_topic: Text | None = None
    correlation_data: Binary | None = None
    content_type: Text | None = None
    user_properties: list[tuple[Text, Text]] = msgspec.field(default_factory=list)


class NewMessage(Args, frozen=True):
    """A message to publish."""

    topic: str
    payload: bytes
    qos: Qos = 0
    retain: bool = False
    properties: PublishProperties | None = None


class NewMessages(Args, frozen=True):
    """Several messages, published in their order."""

    messages: list[NewMessage]


class PublishedMessage(msgspec.Struct, frozen=True):
    """What became of a message.

    Attributes:
        id: In hexadecimal digits.
        receivers: Subscriptions that it was handed to; -1 if there are so many that it goes on to more of them.
        code: The reason code of MQTT 5 with which it was refused; 0 if it was not, 16 if nothing subscribes to it.
        message: Why, for people.
    """

    id: str
    receivers: int
    code: int
    message: str


MESSAGES_PUBLISH = Ask("messages.publish", NewMessage, PublishedMessage, STATE, ACTS, secrets=frozenset({"payload"}))
MESSAGES_PUBLISH_ALL = ListAsk(
    "messages.publish_all", NewMessages, PublishedMessage, STATE, ACTS, secrets=frozenset({"messages"})
)
