"""The numbers of a node."""

import msgspec

from heliograph.rpc.asks import ONE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import NoArgs


class BrokerInfo(msgspec.Struct, frozen=True):
    """The answer of `broker.info`.

    Attributes:
        sysdescr: What it is.
        version: Of the program.
        datetime: Its time, RFC 3339.
        uptime_s: Seconds since it was ready.
    """

    sysdescr: str
    version: str
    datetime: str
    uptime_s: int


class MetricValue(msgspec.Struct, frozen=True):
    """A row of `broker.stats` and `broker.metrics`; docs/metrics.md says what each counts.

    Attributes:
        name: Its name, as in the log.
        unit: What it is measured in; empty for a number of things.
    """

    name: str
    value: float
    unit: str


BROKER_INFO = Ask("broker.info", NoArgs, BrokerInfo, ONE, is_vital=True)
BROKER_STATS = ListAsk("broker.stats", NoArgs, MetricValue, SUMMED)
BROKER_METRICS = ListAsk("broker.metrics", NoArgs, MetricValue, SUMMED)
