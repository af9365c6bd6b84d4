"""What can be asked of the subscriptions of a node, and done with them on a client's behalf."""

import sys
from collections.abc import Iterator, Sequence

from heliograph.broker import hooks
from heliograph.channel.context import ChannelContext
from heliograph.channel.subscription_listing import (
    ANY,
    WantedSubscriptions,
    columns_of,
    found_subscriptions,
)
from heliograph.control.checks import check_filter, check_subscription, check_topic_name
from heliograph.control.proto_v1 import subscriptions as proto
from heliograph.control.proto_v1.clients import ClientId
from heliograph.control.sessions import held_session, no_client
from heliograph.control.slices import in_slices
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from heliograph.rpc.methods import Call, Method, RpcError
from heliograph.session.session import Session

Rows = Iterator[proto.SubscriptionRow | None]


def methods(context: ChannelContext) -> list[Method]:
    answers = SubscriptionsAnswers(context)
    return [
        proto.SUBSCRIPTIONS_LIST.by(answers.list),
        proto.SUBSCRIPTIONS_COUNT.by(answers.count),
        proto.SUBSCRIPTIONS_SHOW.by(answers.show),
        proto.SUBSCRIPTIONS_ADD.by(answers.add),
        proto.SUBSCRIPTIONS_DEL.by(answers.delete),
    ]


class SubscriptionsAnswers:
    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._sessions = context.sessions

    def list(self, args: proto.SubscriptionsWanted, call: Call) -> Iterator[Sequence[proto.SubscriptionRow]]:
        """Answer `subscriptions.list`: those that match, of sessions that are on the disk only too."""
        if args.topic:
            check_subscription(args.topic)
        if args.matches:
            check_topic_name(args.matches)
        if args.within:
            check_filter(args.within)
        return in_slices(self._rows(args), _length)

    def count(self, args: proto.SubscriptionsWanted, call: Call) -> Iterator[Sequence[proto.SubscriptionsCount]]:
        """Answer `subscriptions.count`, in one row."""
        return in_slices(self._counted(args))

    def show(self, args: ClientId, call: Call) -> Iterator[Sequence[proto.SubscriptionRow]]:
        if not self._sessions.knows(args.clientid):
            raise no_client(args.clientid)
        return in_slices(self._rows(proto.SubscriptionsWanted(clientid=args.clientid)), _length)

    def add(self, args: proto.NewSubscription, call: Call) -> proto.Subscribed:
        """Answer `subscriptions.add`: checked as a SUBSCRIBE is, but for what the client itself may do."""
        channel = self._context.channels.find(args.clientid)
        if channel is None and not self._sessions.knows(args.clientid):
            raise no_client(args.clientid)
        check_subscription(args.topic)
        self._context.begin_turn()
        entry = p.SubscribeEntry(args.topic, args.qos, args.nl, args.rap, args.rh)
        codes = [] if channel is None else channel.subscribe([entry])
        if not codes:
            raise RpcError(
                "not_connected", f"client {args.clientid!r} is not connected; only then it can be subscribed"
            )
        if codes[0] >= rc.UNSPECIFIED_ERROR:
            name = rc.name_of(codes[0])
            raise RpcError("subscription_refused", f"the subscription to {args.topic!r} is refused: {name}")
        return proto.Subscribed(args.clientid, args.topic, codes[0])

    async def delete(self, args: proto.SubscriptionName, call: Call) -> proto.SubscriptionName:
        """Answer `subscriptions.del`: of a client that is away, too."""
        session = await held_session(self._context, args.clientid)
        if not drop_subscription(self._context, session, args.topic):
            detail = f"client {args.clientid!r} has no subscription {args.topic!r}; `ctl subscriptions show` lists its"
            raise RpcError("not_found", detail)
        return args

    def _rows(self, args: proto.SubscriptionsWanted) -> Rows:
        """Those that are wanted; None where a piece of work gave none."""
        count, until = 0, args.skip + args.limit if args.limit else sys.maxsize
        for found in found_subscriptions(self._context, _wanted(args)):
            for one in found[max(0, args.skip - count) : until - count]:
                yield proto.SubscriptionRow(*columns_of(one))
            count += len(found)
            if count >= until:
                return
            yield None

    def _counted(self, args: proto.SubscriptionsWanted) -> Iterator[proto.SubscriptionsCount | None]:
        count = 0
        if args == proto.SubscriptionsWanted(limit=args.limit, skip=args.skip):
            count = self._context.broker.statistics()["subscriptions.count"]
        else:
            for found in found_subscriptions(self._context, _wanted(args)):
                count += len(found)
                yield None
        yield proto.SubscriptionsCount(count)


def drop_subscription(context: ChannelContext, session: Session, name: str) -> bool:
    """Drop a subscription on a client's behalf, whether it is connected or not; whether there was one."""
    context.begin_turn()
    channel = context.channels.find(session.clientid)
    if channel is not None:
        return channel.unsubscribe([name]) == [rc.SUCCESS]
    subscription = session.unsubscribe(name)
    if subscription is None:
        return False
    arguments = (session.clientid, name, subscription.qos, Properties())
    context.broker.hooks.run(hooks.SESSION_UNSUBSCRIBED, arguments)
    session.pass_on()
    return True


def _wanted(args: proto.SubscriptionsWanted) -> WantedSubscriptions:
    wanted = WantedSubscriptions(args.matches, args.within, args.topic)
    wanted.clientid, wanted.group = args.clientid, args.share_group
    wanted.qos = ANY if args.qos is None else args.qos
    wanted.durable = ANY if args.durable is None else int(args.durable)
    return wanted


def _length(row: proto.SubscriptionRow) -> int:
    return len(row.clientid) + len(row.topic)
