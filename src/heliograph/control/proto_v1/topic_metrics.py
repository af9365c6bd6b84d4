"""Topics whose messages are counted."""

import msgspec

from heliograph.rpc.asks import ACTS, CONFIGURES, EQUAL, STATE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class TopicToCount(Args, frozen=True):
    """One topic; for `topic_metrics.reset`, all where it is empty."""

    topic: str = ""


class CountedTopicRow(msgspec.Struct, frozen=True):
    """A row of `topic_metrics.list`.

    Attributes:
        created_at_us: Since when it is counted, in microseconds since the epoch.
        reset_at_us: When its counts were set to 0; 0 for never.
        counts: By name: `in`, `out`, `dropped`, `qos0.in` and so on.
        rates: What came in a second, likewise.
    """

    topic: str
    created_at_us: int
    reset_at_us: int
    counts: dict[str, int]
    rates: dict[str, float]


class TopicCounted(msgspec.Struct, frozen=True):
    """What a change came to.

    Attributes:
        topics: How many topics are counted now.
    """

    topics: int


TOPIC_METRICS_LIST = ListAsk("topic_metrics.list", NoArgs, CountedTopicRow, SUMMED)
TOPIC_METRICS_RESET = Ask("topic_metrics.reset", TopicToCount, TopicCounted, EQUAL, ACTS)
TOPIC_METRICS_ADD = Ask("topic_metrics.add", TopicToCount, TopicCounted, STATE, CONFIGURES)
TOPIC_METRICS_DELETE = Ask("topic_metrics.delete", TopicToCount, TopicCounted, STATE, CONFIGURES)
