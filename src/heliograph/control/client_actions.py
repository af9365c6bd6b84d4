"""What can be done with the clients of a node one by one: their keepalive, what they remember, messages that wait."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from heliograph.broker.actions import action_of
from heliograph.channel.authorization import Authorizer
from heliograph.channel.context import ChannelContext
from heliograph.channel.operator_actions import kick, set_keepalive
from heliograph.control.proto_v1 import clients as proto
from heliograph.control.proto_v1.clients import ClientId, Kicked
from heliograph.control.sessions import held_session, no_client
from heliograph.control.slices import in_slices
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, RpcError
from heliograph.session.durable import DurableSession
from heliograph.session.mqueue import Delivery, MessageQueue
from heliograph.session.session import Session

_KEEPALIVE_MAX: Final = 65_535
_READ_AT_ONCE: Final = 16
_NAMES_MAX: Final = 4 << 20  # characters of topics and clients of an answer, before one more message


def methods(context: ChannelContext) -> list[Method]:
    answers = ClientActions(context)
    return [
        proto.CLIENTS_KICK_ALL.by(answers.kick_all),
        proto.CLIENTS_KEEPALIVE.by(answers.keepalive),
        proto.CLIENTS_QUEUE.by(answers.queue),
        proto.CLIENTS_DECISIONS.by(answers.decisions),
        proto.CLIENTS_FORGET_DECISIONS.by(answers.forget_decisions),
    ]


class ClientActions:
    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._broker = context.broker

    def kick_all(self, args: proto.ClientIds, call: Call) -> Iterator[Sequence[Kicked]]:
        """Answer `clients.kick_all`: end connections and sessions; ids that no client has are passed over."""
        return in_slices(self._kicked(args.clientids))

    def keepalive(self, args: proto.NewKeepalive, call: Call) -> ClientId:
        """Answer `clients.keepalive`: of a client that is connected, until its connection ends."""
        if not 0 <= args.interval <= _KEEPALIVE_MAX:
            raise RpcError(BAD_ARGUMENTS, f"interval is {args.interval}; 0 to {_KEEPALIVE_MAX} seconds are valid")
        self._check_connected(args.clientid)
        set_keepalive(self._context, args.clientid, args.interval)
        return ClientId(args.clientid)

    async def queue(self, args: proto.QueueWanted, call: Call) -> AsyncIterator[Sequence[proto.QueuedMessage]]:
        """Answer `clients.queue`: messages that wait for a client, or are in flight; nothing of it changes."""
        session = await held_session(self._context, args.clientid, is_whole=args.inflight)
        if not args.inflight and isinstance(session, DurableSession) and not session.attached:
            raise RpcError(
                "session_asleep", f"what waits for {args.clientid!r} is in the stored streams until it returns"
            )
        for rows in in_slices(self._queued(session, args), lambda row: len(row.payload) + len(row.topic)):
            yield rows

    def _queued(self, session: Session, args: proto.QueueWanted) -> Iterator[proto.QueuedMessage]:
        offset_us = int(self._broker.now_us) - int(self._broker.uptime_us)
        left, names_left = args.payload_max, _NAMES_MAX
        for position, priority, delivery in (_in_flight if args.inflight else _waiting)(session, args):
            message = delivery.message
            payload = message.payload[: args.payload_max]
            if len(payload) > left or names_left < 0:
                return
            left -= len(payload)
            names_left -= len(message.topic) + len(message.clientid) + len(message.username or "")
            yield proto.QueuedMessage(
                position, message.guid.hex(), message.topic, delivery.qos, message.id_high, message.clientid,
                message.username, int(delivery.since_us) + offset_us, priority, payload, len(message.payload),
            )  # fmt: skip

    def decisions(self, args: ClientId, call: Call) -> Iterator[Sequence[proto.DecisionRow]]:
        return in_slices(self._remembered(self._authorizer(args.clientid)), lambda row: len(row.topic))

    def forget_decisions(self, args: ClientId, call: Call) -> ClientId:
        """Answer `clients.forget_decisions`: forget a client's rights, also what was fetched for it."""
        authorizer = self._authorizer(args.clientid)
        if authorizer is not None:
            authorizer.forget_rights()
        return args

    def _kicked(self, clientids: list[str]) -> Iterator[Kicked | None]:
        for clientid in clientids:
            was_connected = self._context.channels.find(clientid) is not None
            self._context.begin_turn()
            yield Kicked(clientid, was_connected) if kick(self._context, clientid) else None

    def _remembered(self, authorizer: Authorizer | None) -> Iterator[proto.DecisionRow]:
        cache = None if authorizer is None else authorizer.cache
        if authorizer is None or cache is None or authorizer.epoch != self._broker.rights.epoch:
            return
        now_us, uptime_us = int(self._broker.now_us), int(self._broker.uptime_us)
        ttl_us = int(authorizer.options.authz_cache_ttl_us)
        for number, topic, until_us in cache.entries():
            if abs(until_us) > uptime_us:
                action, made_us = action_of(number), abs(until_us) - ttl_us - uptime_us + now_us
                result = "allow" if until_us > 0 else "deny"
                yield proto.DecisionRow(action.kind, action.qos, action.retain, topic, result, made_us)

    def _authorizer(self, clientid: str) -> Authorizer | None:
        self._check_connected(clientid)
        session = self._context.sessions.held(clientid)
        access_check = None if session is None else session.sender.access_check
        return access_check if isinstance(access_check, Authorizer) else None

    def _check_connected(self, clientid: str) -> None:
        if self._context.channels.find(clientid) is not None:
            return
        if self._context.sessions.knows(clientid):
            raise RpcError("not_connected", f"client {clientid!r} is not connected")
        raise no_client(clientid)


def _in_flight(session: Session, wanted: proto.QueueWanted) -> Iterator[tuple[str, int, Delivery]]:
    """Deliveries in flight after a position, which is the packet identifier; from the first where that is gone."""
    deliveries = session.sender.window.deliveries
    names = list(deliveries)  # at most 65,535
    after = _numbers(wanted.position, 1)[0]
    begin = names.index(after) + 1 if after in deliveries else 0
    for packet_id in names[begin : begin + wanted.limit]:
        delivery = deliveries.get(packet_id)  # it may be acknowledged between two slices
        if delivery is not None:
            yield str(packet_id), 0, delivery


def _waiting(session: Session, wanted: proto.QueueWanted) -> Iterator[tuple[str, int, Delivery]]:
    """Deliveries that wait after a position, which is the priority of a queue and since when one waits in it."""
    after_priority, after_us = _numbers(wanted.position, 2)
    left = wanted.limit
    lanes: list[tuple[int, MessageQueue]] = [] if session.sender.queue is None else session.sender.queue.lanes()
    for priority, lane in lanes:
        if wanted.position and priority > after_priority:
            continue
        since_us = after_us if wanted.position and priority == after_priority else -1
        while left > 0 and (found := lane.waiting_after(since_us, min(left, _READ_AT_ONCE))):
            for delivery in found:
                since_us = int(delivery.since_us)
                left -= 1
                yield f"{priority}_{since_us}", priority, delivery


def _numbers(position: str, count: int) -> list[int]:
    if not position:
        return [-1] * count
    parts = position.split("_")
    if len(parts) != count or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise RpcError(BAD_ARGUMENTS, f"{position[:100]!r} is no position; valid is what the last answer ended with")
    return [int(part) for part in parts]
