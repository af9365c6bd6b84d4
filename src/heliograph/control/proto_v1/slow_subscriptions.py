"""The receivers and topics whose messages take longest."""

import msgspec


class SlowSubscriptionRow(msgspec.Struct, frozen=True):
    """A row of `slow_subscriptions.list`, the slowest first.

    Attributes:
        timespan_ms: The longest that a message took.
        last_update_ms: When one was slow last, in milliseconds since the epoch.
    """

    clientid: str
    topic: str
    timespan_ms: int
    last_update_ms: int


class SlowSubscriptionsCleared(msgspec.Struct, frozen=True):
    """The answer of `slow_subscriptions.clear`."""

    cleared: int
