"""Messages as they come, for as long as a caller reads them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from heliograph.channel.context import ChannelContext
from heliograph.control.checks import check_filter
from heliograph.control.proto_v1 import tail as proto
from heliograph.events.message_tails import MessageTail, MessageTails, TailedMessage
from heliograph.rpc.codes import BAD_ARGUMENTS, TOO_MANY_REQUESTS
from heliograph.rpc.methods import Call, Method, RpcError

_RATE_MAX: Final = 100
_PAYLOAD_MAX: Final = 64 << 10
_AT_ONCE_MAX: Final = 8
_TAKEN: Final = 10  # messages of one slice
_PAUSE_S: Final = 0.05  # between slices, so that a row for each message is no turn of its own
_REPORTED_AFTER_S: Final = 1.0  # when nothing is taken, what was left out is reported after so long


def methods(context: ChannelContext) -> list[Method]:
    answers = TailAnswers(context)
    return [proto.MESSAGES_TAIL.by(answers.tail)]


class TailAnswers:
    def __init__(self, context: ChannelContext) -> None:
        broker = context.broker
        self._tails = MessageTails(broker.hooks, lambda: int(broker.now_us))

    async def tail(self, args: proto.TailWanted, call: Call) -> AsyncIterator[Sequence[proto.TailRow]]:
        """Answer `messages.tail`: messages of a filter, until the asker has seen enough."""
        check_filter(args.filter)
        if not (1 <= args.rate <= _RATE_MAX and 0 <= args.payload_max <= _PAYLOAD_MAX):
            text = f"rate is 1 to {_RATE_MAX} messages a second, and payload_max 0 to {_PAYLOAD_MAX} bytes"
            raise RpcError(BAD_ARGUMENTS, text)
        if len(self._tails) >= _AT_ONCE_MAX:
            raise RpcError(TOO_MANY_REQUESTS, f"{_AT_ONCE_MAX} lookers-on are there already: end one of them")
        tail = MessageTail(args.filter, args.rate, args.payload_max)
        self._tails.open(tail)
        try:
            yield [proto.TailRow(0)]  # it has begun
            while True:
                try:
                    async with asyncio.timeout(_REPORTED_AFTER_S):
                        await tail.came.wait()
                except TimeoutError:
                    if left_out := tail.take_left_out():
                        yield [proto.TailRow(left_out)]
                    continue
                yield [_row(one) for one in tail.take(_TAKEN)]
                await asyncio.sleep(_PAUSE_S)  # more come meanwhile, and go in one slice
        finally:
            self._tails.close(tail)


def _row(one: TailedMessage) -> proto.TailRow:
    message = one.message
    properties = message.properties.named() if message.property_bytes else None
    return proto.TailRow(
        one.left_out,
        message.guid.hex(),
        message.topic,
        int(message.qos),
        bool(message.retain),
        message.clientid,
        message.username,
        int(message.id_high),
        one.payload,
        len(message.payload),
        properties,
    )
