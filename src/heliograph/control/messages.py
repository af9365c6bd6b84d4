"""Publishes messages on an operator's behalf, by the same path as those of clients, but for what a client may do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message, make_message
from heliograph.broker.publishing import Outcome, publish
from heliograph.broker.subscription import PARKED
from heliograph.channel.context import ChannelContext
from heliograph.channel.handles import CommitWaiter
from heliograph.control.proto_v1 import messages as proto
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.topic import topic_matches, topic_name_fault
from heliograph.rpc.methods import SLICE, Call, Method
from heliograph.session.session import Session

PUBLISHER: Final = "http_api"  # the client id that rules and hooks see
_WORK_AT_ONCE: Final = 256  # deliveries
_LOOKED_MAX: Final = 200


def methods(answers: "MessagesAnswers") -> list[Method]:
    return [
        proto.MESSAGES_PUBLISH.by(answers.publish),
        proto.MESSAGES_PUBLISH_ALL.by(answers.publish_all),
    ]


class Committed(CommitWaiter):
    """Waits for the commit of a message."""

    def __init__(self, context: ChannelContext, is_joined: bool, ticket: int) -> None:
        self.ticket = ticket
        self.code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._context = context
        self._is_joined = is_joined

    def on_committed(self, ticket: int, code: int) -> None:
        """It is done."""
        if not self.code.done():
            self.code.set_result(self._context.commits.joined_code if self._is_joined else code)

    def abort(self) -> None:
        """The answer could not be delivered."""
        if not self.code.done():
            self.code.set_result(rc.UNSPECIFIED_ERROR)


class MessagesAnswers:
    """Publishes what it is asked to; owned by the control socket.

    Args:
        limits: Bytes of the largest packet, and levels of the longest topic, that the node takes now.
    """

    def __init__(self, context: ChannelContext, limits: Callable[[], tuple[int, int]]) -> None:
        self._context = context
        self._broker = context.broker
        self._limits = limits
        self._ids = IdSource(context.node, context.next_number())

    async def publish(self, args: proto.NewMessage, call: Call) -> proto.PublishedMessage:
        """Answer `messages.publish`, when all that is kept of the message is durable."""
        return await self._publish(args)

    async def publish_all(self, args: proto.NewMessages, call: Call) -> AsyncIterator[Sequence[proto.PublishedMessage]]:
        """Answer `messages.publish_all`: one row for each message, in their order."""
        published: list[proto.PublishedMessage] = []
        before = self._broker.work
        for new in args.messages:
            published.append(await self._publish(new))
            if len(published) == SLICE or self._broker.work > before + _WORK_AT_ONCE:
                yield published
                published, before = [], self._broker.work
        yield published

    async def _publish(self, new: proto.NewMessage) -> proto.PublishedMessage:
        fault = self._fault(new)
        if fault is not None:
            return proto.PublishedMessage("", 0, *fault)
        self._context.begin_turn()
        try:
            message = self._made(new)
            outcome = publish(self._broker, message, may_refuse=True)
        except ProtocolError as error:
            return proto.PublishedMessage("", 0, int(error.reason_code), error.detail)
        except ValueError as error:  # a property that no packet can hold
            return proto.PublishedMessage("", 0, rc.PACKET_TOO_LARGE, str(error))
        outcome, code = await became_of(self._context, outcome)
        if code == rc.SUCCESS and outcome.receivers == 0 and not self._may_be_awaited(message, outcome):
            code = rc.NO_MATCHING_SUBSCRIBERS
        text = "" if code == rc.SUCCESS else rc.name_of(code)
        return proto.PublishedMessage(message.guid.hex(), int(outcome.receivers), code, text)

    def _may_be_awaited(self, message: Message, outcome: Outcome) -> bool:
        """Whether a message that nothing received is stored for sessions that are away.

        Filters of sessions that are on the disk only, or behind the first few hundred, count as matching.
        """
        router, sessions = self._broker.router, self._context.sessions
        if outcome.refusal is not None or outcome.is_unheard or router.parked_count == 0:
            return False
        if sessions.asleep_count > 0 or len(sessions) > _LOOKED_MAX:
            return True
        return any(
            subscription.slot == PARKED and topic_matches(message.topic, subscription.topic_filter)
            for session in sessions.walk().take(_LOOKED_MAX)
            if isinstance(session, Session)
            for subscription in session.subscriptions.values()
        )

    def _fault(self, new: proto.NewMessage) -> tuple[int, str] | None:
        bytes_max, levels_max = self._limits()
        fault = topic_name_fault(new.topic, levels_max)
        if fault is not None:
            return rc.TOPIC_NAME_INVALID, f"{rc.name_of(rc.TOPIC_NAME_INVALID)}: {fault}"
        if len(new.payload) + len(new.topic.encode()) + 5 > bytes_max:
            return (
                rc.PACKET_TOO_LARGE,
                f"{rc.name_of(rc.PACKET_TOO_LARGE)}: it has {len(new.payload)} bytes; packets of {bytes_max} are taken",
            )
        return None

    def _made(self, new: proto.NewMessage) -> Message:
        properties = b"" if new.properties is None else props.encode_properties(properties_of(new.properties))
        low = self._ids.next_low()
        now = self._broker.now_us
        return make_message(now, low, new.topic, new.payload, new.qos, new.retain, properties, PUBLISHER, None)


async def became_of(context: ChannelContext, outcome: Outcome) -> tuple[Outcome, int]:
    """What became of a message, and the reason code, when all that is kept of it is durable."""
    outcome = await settled(outcome)
    code = code_of(outcome)
    if code == rc.SUCCESS and outcome.ticket != NOT_STORED:
        code = await committed(context, int(outcome.ticket), is_joined=outcome.is_joined)
    return outcome, code


async def committed(context: ChannelContext, ticket: int, *, is_joined: bool) -> int:
    """Wait for the commit with a ticket; the reason code with which it was refused, or 0."""
    commits = context.commits
    if not commits.is_pending(ticket):
        return rc.SUCCESS
    waiter = Committed(context, is_joined, ticket)
    commits.wait(ticket, waiter)
    return await waiter.code


async def settled(outcome: Outcome) -> Outcome:
    """What became of a message, when its callbacks have answered."""
    pending = outcome.pending
    if pending is None:
        return outcome
    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    pending.then(lambda answer: None if answered.done() else answered.set_result(answer))
    await answered
    return outcome if pending.outcome is None else pending.outcome


def code_of(outcome: Outcome) -> int:
    if outcome.unkept != 0:
        return int(outcome.unkept)
    return rc.SUCCESS if outcome.refusal is None else outcome.refusal.code


def properties_of(new: proto.PublishProperties) -> props.Properties:
    """MQTT 5 properties as the kernel has them."""
    made = props.Properties()
    numbers = {
        props.PAYLOAD_FORMAT_INDICATOR: new.payload_format_indicator,
        props.MESSAGE_EXPIRY_INTERVAL: new.message_expiry_interval,
    }
    made.numbers = {name: number for name, number in numbers.items() if number is not None}
    strings = {props.RESPONSE_TOPIC: new.response_topic, props.CONTENT_TYPE: new.content_type}
    made.strings = {name: text for name, text in strings.items() if text is not None}
    if new.correlation_data is not None:
        made.binaries[props.CORRELATION_DATA] = new.correlation_data
    made.user = list(new.user_properties)
    return made
