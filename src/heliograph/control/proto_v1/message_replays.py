"""Stored messages that are published again: the state of a replay, and the messages."""

import msgspec

from heliograph.control.proto_v1.messages import NewMessage, PublishedMessage
from heliograph.rpc.asks import ACTS, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args


class MessageReplayOrder(Args, frozen=True):
    """A replay of stored messages that begins.

    Attributes:
        topic: The topic filter of the messages.
        target: The topic that they are published to; `${topic}` is the one that they had.
        start: Stored then or later, in microseconds since the epoch; None for the first message.
        end: Stored before.
        rate: Messages a second, at most.
        limit: Messages altogether, at most.
    """

    id: str
    database: str
    topic: str
    target: str
    start: int | None
    end: int
    rate: int
    limit: int


class MessageReplayEnd(Args, frozen=True):
    """A replay has ended.

    Attributes:
        refused: Messages that could not be published.
    """

    id: str
    state: str
    published: int
    refused: int


class MessageReplayNoted(msgspec.Struct, frozen=True):
    """The node knows it."""

    id: str


class ReplayedMessages(Args, frozen=True):
    """Messages of a replay, published in their order."""

    id: str
    messages: list[NewMessage]


MESSAGE_REPLAYS_BEGIN = Ask("message_replays.begin", MessageReplayOrder, MessageReplayNoted, STATE, ACTS)
MESSAGE_REPLAYS_PUBLISH = ListAsk("message_replays.publish", ReplayedMessages, PublishedMessage, STATE)
MESSAGE_REPLAYS_END = Ask("message_replays.end", MessageReplayEnd, MessageReplayNoted, STATE, ACTS)
