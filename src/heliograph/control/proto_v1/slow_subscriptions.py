"""The receivers and topics whose messages take longest."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact
from heliograph.rpc.asks import ACTS, EQUAL, LISTED, Ask, ListAsk
from heliograph.rpc.methods import NoArgs


class SlowSubscriptionRow(msgspec.Struct, frozen=True):
    """A row of `slow_subscriptions.list`, the slowest first.

    Attributes:
        timespan_ms: The longest that a message took, in milliseconds.
        last_update_ms: When one was slow last, in milliseconds since the epoch.
    """

    clientid: str
    topic: str
    timespan_ms: Annotated[int, Fact("timespan")]
    last_update_ms: Annotated[int, Fact("last_update_time")]


class SlowSubscriptionsCleared(msgspec.Struct, frozen=True):
    """The answer of `slow_subscriptions.clear`."""

    cleared: int


SLOW_SUBSCRIPTIONS_LIST = ListAsk("slow_subscriptions.list", NoArgs, SlowSubscriptionRow, LISTED)
SLOW_SUBSCRIPTIONS_CLEAR = Ask("slow_subscriptions.clear", NoArgs, SlowSubscriptionsCleared, EQUAL, ACTS)
