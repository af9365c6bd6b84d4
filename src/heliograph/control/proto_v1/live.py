"""What a node counts now, for those who watch it: what is asked, and answers."""

import msgspec

from heliograph.control.proto_v1.metrics import MetricSample
from heliograph.rpc.asks import SUMMED, Ask
from heliograph.rpc.methods import Args


class LiveWanted(Args, frozen=True):
    """Asks for numbers.

    Attributes:
        names: Those of metrics; parts that declare none of them are not asked.
        turns_s: The longest turn of so many last seconds is wanted; a minute at the most.
    """

    names: tuple[str, ...] = ()
    turns_s: int = 2


class LiveNumbers(msgspec.Struct, frozen=True):
    """The numbers of one moment.

    Attributes:
        at_us: When, in microseconds on the monotonic clock of the node.
        uptime_s: Seconds since it was ready.
        memory_used: Bytes that the process had at the last tick.
        memory_limit: `node.memory_limit`; 0 for none.
        memory_stage: Of the memory contract; 0 while memory is not short.
        cpu_s: Processor time of the process so far.
        longest_turn_s: The longest turn of the event loop of those seconds.
        samples: The metrics.
    """

    at_us: int
    uptime_s: int
    memory_used: int
    memory_limit: int
    memory_stage: int
    cpu_s: float
    longest_turn_s: float
    samples: list[MetricSample]


LIVE_NUMBERS = Ask("live.numbers", LiveWanted, LiveNumbers, SUMMED)
