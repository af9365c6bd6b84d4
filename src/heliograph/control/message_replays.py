"""Republishes stored messages in batches sent by the reader.

The audit has the beginning and the end of a replay, not each of its messages.
"""

from collections.abc import AsyncIterator, Sequence

from heliograph.control.messages import MessagesAnswers
from heliograph.control.proto_v1 import message_replays as proto
from heliograph.control.proto_v1.messages import NewMessages, PublishedMessage
from heliograph.rpc.methods import Call, Method


def methods(messages: MessagesAnswers) -> list[Method]:
    """What can be asked: `message_replays.begin`, `publish`, `end`.

    Args:
        messages: What publishes.
    """

    async def publish(args: proto.ReplayedMessages, call: Call) -> AsyncIterator[Sequence[PublishedMessage]]:
        async for rows in messages.publish_all(NewMessages(args.messages), call):
            yield rows

    return [
        proto.MESSAGE_REPLAYS_BEGIN.by(_noted),
        proto.MESSAGE_REPLAYS_PUBLISH.by(publish),
        proto.MESSAGE_REPLAYS_END.by(_noted),
    ]


def _noted(args: proto.MessageReplayOrder | proto.MessageReplayEnd, call: Call) -> proto.MessageReplayNoted:
    return proto.MessageReplayNoted(args.id)
