"""Publishes stored messages again, some at a time, as whoever reads them sends them.

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
        async for told in messages.publish_all(NewMessages(args.messages), call):
            yield told

    return [
        Method("message_replays.begin", proto.MessageReplayOrder, _told, is_action=True),
        Method("message_replays.publish", proto.ReplayedMessages, publish),
        Method("message_replays.end", proto.MessageReplayEnd, _told, is_action=True),
    ]


def _told(args: proto.MessageReplayOrder | proto.MessageReplayEnd, call: Call) -> proto.MessageReplayTold:
    return proto.MessageReplayTold(args.id)
