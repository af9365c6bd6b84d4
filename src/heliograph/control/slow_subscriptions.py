"""Slow subscriptions: listed and forgotten; `slow_subs` of the configuration says what is looked for."""

from collections.abc import Callable, Iterator, Sequence

from heliograph.control.proto_v1.slow_subscriptions import (
    SLOW_SUBSCRIPTIONS_CLEAR,
    SLOW_SUBSCRIPTIONS_LIST,
    SlowSubscriptionRow,
    SlowSubscriptionsCleared,
)
from heliograph.control.slices import in_slices
from heliograph.events.slow_subscriptions import SlowSubscription, SlowSubscriptions
from heliograph.rpc.methods import Call, Method, NoArgs


def methods(slow: Callable[[], SlowSubscriptions]) -> list[Method]:
    def listed(args: NoArgs, call: Call) -> Iterator[Sequence[SlowSubscriptionRow]]:
        return in_slices((_row(one) for one in slow()), lambda row: len(row.clientid) + len(row.topic))

    def clear(args: NoArgs, call: Call) -> SlowSubscriptionsCleared:
        found = slow()
        count = len(found)
        found.clear()
        return SlowSubscriptionsCleared(count)

    return [
        SLOW_SUBSCRIPTIONS_LIST.by(listed),
        SLOW_SUBSCRIPTIONS_CLEAR.by(clear),
    ]


def _row(one: SlowSubscription) -> SlowSubscriptionRow:
    return SlowSubscriptionRow(one.clientid, one.topic, one.took_us // 1000, one.seen_us // 1000)
