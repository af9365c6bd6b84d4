"""What can be asked of the subscriptions of a node, and done with them on a client's behalf."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from heliograph.broker import hooks
from heliograph.broker.subscription import Subscription
from heliograph.broker.trie import filter_matches
from heliograph.channel.context import ChannelContext
from heliograph.control.checks import check_filter, check_subscription, check_topic_name
from heliograph.control.proto_v1 import subscriptions as proto
from heliograph.control.proto_v1.clients import ClientId
from heliograph.control.sessions import every_session, held_session, no_client
from heliograph.control.slices import in_slices
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.topic import bare_filter, filter_covers, split_share
from heliograph.rpc.methods import Call, Method, RpcError
from heliograph.session.durability import SavedSubscription
from heliograph.session.durable import DurableSession
from heliograph.session.known import Asleep
from heliograph.session.session import Session

Rows = Iterator[proto.SubscriptionRow | None]
Selector = Callable[[str, str, int, bool], bool]


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

    def _rows(self, wanted: proto.SubscriptionsWanted) -> Rows:
        count = 0
        for row in self._found(wanted):
            count += row is not None
            yield row if count > wanted.skip else None
            if count == wanted.limit + wanted.skip and wanted.limit:
                return

    def _counted(self, wanted: proto.SubscriptionsWanted) -> Iterator[proto.SubscriptionsCount | None]:
        count = 0
        for found in self._found(wanted) if _has_filter(wanted) else self._numbers():
            if found is not None:
                count += found if isinstance(found, int) else 1
            yield None
        yield proto.SubscriptionsCount(count)

    def _numbers(self) -> Iterator[int]:
        """How many subscriptions each session has."""
        for entry in every_session(self._context):
            if isinstance(entry, Session):
                yield len(entry.subscriptions)
            elif isinstance(entry, Asleep):
                yield from (len(page) for page in self._saved_pages(entry.clientid))

    def _found(self, wanted: proto.SubscriptionsWanted) -> Rows:
        """Subscriptions that are wanted; None where a piece of work gave none."""
        is_wanted = _selector(wanted)
        if not wanted.clientid:
            for entry in every_session(self._context):
                if isinstance(entry, Asleep):
                    yield from self._saved(entry.clientid, wanted.topic, is_wanted)
                elif isinstance(entry, Session):
                    yield from _of_session(entry, wanted.topic, is_wanted)
            return
        session = self._sessions.held(wanted.clientid)
        if session is not None:
            yield from _of_session(session, wanted.topic, is_wanted)
        elif self._sessions.knows(wanted.clientid):
            yield from self._saved(wanted.clientid, wanted.topic, is_wanted)

    def _saved(self, clientid: str, topic: str, is_wanted: Selector) -> Rows:
        for page in self._saved_pages(clientid):
            yield None
            for saved in page:
                if (not topic or saved.name == topic) and is_wanted(
                    saved.mountpoint + bare_filter(saved.name), saved.name, saved.qos, True
                ):
                    yield _saved_row(clientid, saved)
                else:
                    yield None

    def _saved_pages(self, clientid: str) -> Iterable[Sequence[SavedSubscription]]:
        durability = self._sessions.durability
        return () if durability is None else durability.saved_subscriptions(clientid)


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


def _has_filter(wanted: proto.SubscriptionsWanted) -> bool:
    return proto.SubscriptionsWanted() != msgspec.structs.replace(wanted, limit=0, skip=0)


def _of_session(session: Session, topic: str, is_wanted: Selector) -> Rows:
    held, is_durable = session.subscriptions, isinstance(session, DurableSession)
    if not held:
        yield None
    for name in [topic] if topic else list(held):  # a hundred thousand names are copied in half a millisecond
        subscription = held.get(name)
        if subscription is not None and is_wanted(subscription.topic_filter, name, subscription.qos, is_durable):
            yield _row(session.clientid, name, subscription, is_durable)
        else:
            yield None


def _selector(wanted: proto.SubscriptionsWanted) -> Selector:
    """Says whether a subscription is wanted: by its filter as it is routed, its name, QoS, and whether it is kept."""
    levels = wanted.matches.split("/") if wanted.matches else []

    def is_wanted(topic_filter: str, name: str, qos: int, is_durable: bool) -> bool:
        return (
            (wanted.qos is None or qos == wanted.qos)
            and (wanted.durable is None or is_durable == wanted.durable)
            and (not wanted.share_group or split_share(name)[0] == wanted.share_group)
            and (not levels or filter_matches(topic_filter, levels))
            and (not wanted.within or filter_covers(wanted.within, topic_filter))
        )

    return is_wanted


def _row(clientid: str, name: str, held: Subscription, is_durable: bool) -> proto.SubscriptionRow:
    options = held.qos, held.no_local, held.retain_as_published, held.retain_handling, held.subscription_id
    return proto.SubscriptionRow(clientid, name, *options, is_durable)


def _saved_row(clientid: str, saved: SavedSubscription) -> proto.SubscriptionRow:
    options = saved.qos, saved.no_local, saved.retain_as_published, saved.retain_handling, saved.subscription_id
    return proto.SubscriptionRow(clientid, saved.name, *options, durable=True)


def _length(row: proto.SubscriptionRow) -> int:
    return len(row.clientid) + len(row.topic)
