"""A subscription of one subscriber to one filter, with its options; and all subscriptions of a filter."""

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i32, i64, mypyc_attr, u8

from heliograph.broker.message import Message
from heliograph.broker.walkable import Listed
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX, has_client_events, has_wildcard

UNLISTED: Final = -1  # the slot of a subscription that no list has,
PARKED: Final = -2  # and of one that the router only counts


@mypyc_attr(allow_interpreted_subclasses=True)
class Subscriber(Listed):
    """Receives messages from the broker: a session, a shared group, or an internal consumer.

    Subclasses take each message at once and without waiting; what they cannot pass on they queue or drop.
    """

    def __init__(self, clientid: str) -> None:
        super().__init__()
        self.clientid = clientid

    def deliver(self, message: Message, subscription: "Subscription") -> None:
        """Take `message`, which matched `subscription`. Called in the publisher's turn; must not block.

        One that raises is cut (`abort`); publisher and other receivers do not notice.
        """
        raise NotImplementedError(type(self).__name__)

    def abort(self) -> None:
        """End what it serves, a client's connection for example: it raised when it was to take a message."""

    def offer(self, message: Message, subscription: "Subscription", last: bool) -> bool:
        """Take a message of a shared group, or answer False so that another member is asked.

        Called in the publisher's turn, once for each message while members take them; must not block. One that raises
        is cut, and another member is asked.

        Args:
            subscription: This subscriber's membership.
            last: Every member was asked and none could take it: a subscriber that is away may queue it now.
        """
        raise NotImplementedError(type(self).__name__)


class Subscription:
    """One filter of one subscriber with its options; owned by the subscriber, listed by the router.

    A node may hold millions, so what is small stands together at the end.

    Args:
        subscription_id: The MQTT 5 subscription identifier, 0 for none.

    Attributes:
        made_after: How many messages had gone to very many (`Fanouts.spread_count`) when it was made; it gets none of
            them.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        topic_filter: str,
        qos: i64,
        no_local: bool,
        retain_as_published: bool,
        retain_handling: i64,
        subscription_id: i64,
        group: str = "",
    ) -> None:
        self.subscriber = subscriber
        self.topic_filter = topic_filter
        self.group = group
        self.qos = qos
        self.made_after: i64 = 0
        self.subscription_id: i32 = i32(subscription_id)
        self.slot: i32 = UNLISTED  # where it stands in its list, so that leaving costs the same for any number
        self.retain_handling: u8 = u8(retain_handling)
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.is_new = True  # until its retained messages were looked at
        self.is_denied = False  # dropped since the client may not have it: what waits for it is not sent any more
        self.is_wild: bool = has_wildcard(topic_filter)
        self.has_client_events: bool = self.is_wild and has_client_events(topic_filter)  # which are checked one by one
        # Nothing about it changes the packet, so that its receivers share one encoding.
        self.plain: bool = not retain_as_published and subscription_id == 0

    def set_options(
        self, qos: i64, no_local: bool, retain_as_published: bool, retain_handling: i64, subscription_id: i64
    ) -> None:
        """Replace the options, as a SUBSCRIBE with the same filter does [MQTT-3.8.4-3]."""
        self.qos = qos  # [MQTT-3.8.4-3] 3.1.1 [MQTT-3.8.4-3]
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = u8(retain_handling)
        self.subscription_id = i32(subscription_id)
        self.plain = not retain_as_published and subscription_id == 0

    def __repr__(self) -> str:
        return f"Subscription({self.subscriber.clientid!r} on {self.topic_filter!r}, qos={int(self.qos)})"


class FilterEntry(Listed):
    """All subscriptions of one filter; owned by the router, referred to by routes while it has a subscriber.

    Most filters have one subscriber, and a list of one costs as much as its subscription. So the only one stands in
    `only` until a second joins; from then on all stand in `many`.
    """

    def __init__(self, topic_filter: str, tail_at: i64 = 0) -> None:
        super().__init__()
        self.tail_at: i32 = i32(tail_at)  # the trie's: where the levels begin that no node stands for
        self.topic_filter = topic_filter
        self.only: Subscription | None = None
        self.many: list[Subscription] | None = None
        self.walkers: i32 = 0  # messages that are on their way through `many` over several turns

    def add(self, subscription: Subscription) -> None:
        many = self.many
        if many is None:
            only = self.only
            if only is None:
                subscription.slot = 0
                self.only = subscription
                return
            many = [only]
            self.many = many
            self.only = None
        subscription.slot = i32(len(many))
        many.append(subscription)

    def remove(self, subscription: Subscription, is_iterated: bool) -> None:
        """Take a subscription out; the last one moves into its place.

        Args:
            is_iterated: The list is being iterated now, and the iteration must not miss the one that moves.
        """
        many = self.many
        if many is None:
            self.only = None
        else:
            if is_iterated or self.walkers > 0:
                many = many.copy()
                self.many = many
                self.walkers = 0
            last = many.pop()
            if last is not subscription:
                many[subscription.slot] = last
                last.slot = subscription.slot
        subscription.slot = UNLISTED

    def is_empty(self) -> bool:
        return self.only is None and not self.many

    @property
    def subscriptions(self) -> Sequence[Subscription]:
        """All of them; not for the hot path, which asks for `only` and `many`."""
        if self.only is not None:
            return [self.only]
        return [] if self.many is None else self.many

    def __repr__(self) -> str:
        return f"FilterEntry({self.topic_filter!r}, {len(self.subscriptions)} subscriptions)"


def is_exclusive(name: str) -> bool:
    """Whether a filter, as the client wrote it, is one that only one client may subscribe to at a time."""
    return name.startswith(EXCLUSIVE_PREFIX)
