"""Subscriptions, the topics that have any, and exclusive topics: what is asked of them, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact, columns_of
from heliograph.control.proto_v1.clients import ClientId
from heliograph.rpc.asks import ACTS, LISTED, OWNER, STATE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs

Qos = Annotated[int, msgspec.Meta(ge=0, le=2)]


class SubscriptionsWanted(Args, frozen=True):
    """Which subscriptions to list; what is empty does not matter.

    Attributes:
        clientid: Of this client.
        topic: To this filter, as clients write it.
        matches: Whose filter matches this topic name, with its mountpoint.
        limit: The most that are listed; 0 for all.
        qos: At this QoS.
        share_group: Shared, in the group of this name.
        durable: Whether they survive the broker.
        within: Whose filter, with its mountpoint, matches nothing that this filter does not match.
        skip: Pass over so many that are wanted.
    """

    clientid: str = ""
    topic: str = ""
    matches: str = ""
    limit: int = 0
    qos: int | None = None
    share_group: str = ""
    durable: bool | None = None
    within: str = ""
    skip: int = 0


class SubscriptionsCount(msgspec.Struct, frozen=True):
    """How many subscriptions, or topics, are wanted."""

    count: int


class SubscriptionRow(msgspec.Struct, frozen=True):
    """A subscription.

    Attributes:
        topic: The filter as the client wrote it.
        nl: No local.
        rap: Retain as published.
        rh: Retain handling.
        sub_id: The subscription identifier; 0 for none.
        durable: Whether it survives the broker, with its session.
    """

    clientid: str
    topic: str
    qos: int
    nl: Annotated[bool, Fact(answered=int, answers=int)]
    rap: Annotated[bool, Fact(answered=int, answers=int)]
    rh: int
    sub_id: Annotated[int, Fact(is_shown=False)]
    durable: bool


class NewSubscription(Args, frozen=True):
    """A subscription to make on a client's behalf; see `SubscriptionRow`."""

    clientid: str
    topic: str
    qos: Qos = 0
    nl: bool = False
    rap: bool = False
    rh: Qos = 0


class SubscriptionName(Args, frozen=True):
    """One subscription of a client, by its filter as the client wrote it."""

    clientid: str
    topic: str


class Subscribed(msgspec.Struct, frozen=True):
    """A subscription that was made, with the QoS that was granted."""

    clientid: str
    topic: str
    qos: int


class TopicsWanted(Args, frozen=True):
    """How many topics to list; 0 for all.

    Attributes:
        skip: Pass over so many before.
    """

    limit: int = 0
    skip: int = 0


class TopicName(Args, frozen=True):
    """A topic name, or a filter."""

    topic: str


class TopicRow(msgspec.Struct, frozen=True):
    """A filter that has subscriptions, as it is routed: with its mountpoint, and without the name of a group.

    Attributes:
        subscriptions_cnt: How many; a shared group counts as one.
        groups: Its shared groups, with how many members each has; None where there are too many subscriptions to look.
    """

    topic: str
    subscriptions_cnt: int
    groups: dict[str, int] | None


class ExclusiveRow(msgspec.Struct, frozen=True):
    """An exclusive topic, and the client that has it."""

    topic: str
    clientid: str


SUBSCRIPTIONS_LIST = ListAsk("subscriptions.list", SubscriptionsWanted, SubscriptionRow, LISTED)
SUBSCRIPTIONS_COUNT = ListAsk("subscriptions.count", SubscriptionsWanted, SubscriptionsCount, SUMMED)
SUBSCRIPTIONS_SHOW = ListAsk("subscriptions.show", ClientId, SubscriptionRow, OWNER)
SUBSCRIPTIONS_ADD = Ask("subscriptions.add", NewSubscription, Subscribed, OWNER, ACTS)
SUBSCRIPTIONS_DEL = Ask("subscriptions.del", SubscriptionName, SubscriptionName, OWNER, ACTS)
TOPICS_LIST = ListAsk("topics.list", TopicsWanted, TopicRow, LISTED)
TOPICS_COUNT = Ask("topics.count", NoArgs, SubscriptionsCount, SUMMED)
TOPICS_SHOW = ListAsk("topics.show", TopicName, TopicRow, LISTED)
EXCLUSIVE_LIST = ListAsk("exclusive.list", TopicsWanted, ExclusiveRow, STATE)
EXCLUSIVE_DELETE = Ask("exclusive.delete", TopicName, ExclusiveRow, STATE, ACTS)

SUBSCRIPTION = columns_of(SubscriptionRow)
TOPIC = tuple(one for one in columns_of(TopicRow) if one.name != "groups")
EXCLUSIVE = columns_of(ExclusiveRow)
