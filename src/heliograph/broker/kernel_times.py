"""How long things take in the kernel, as histograms; of messages only some are measured, so that none costs more."""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.observe.histogram import Histogram
from heliograph.observe.metric import Sample

SAMPLED: Final = 63  # one message of 64 is measured on its way through the broker,
_SAMPLED_QUEUED: Final = 15  # and one of 16 that waited in a queue

# With a length in its type, mypyc takes a tuple of floats for one that was never set.
_DELIVERY_S: Final[tuple[float, ...]] = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0)
_QUEUE_S: Final[tuple[float, ...]] = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0)
_ACCESS_S: Final[tuple[float, ...]] = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class KernelTimes:
    """The histograms of one node; owned by the broker. What a turn reads begins with the turn.

    Attributes:
        clock: Microseconds on the monotonic clock; None until the node has one.
        read_us: When a turn began that reads a message which is measured; 0 while there is none. Set where a message is
            published, for one of `SAMPLED` and one.
        delivery: From the turn that reads a PUBLISH until all that the turn made is written to sockets.
        queue: From a PUBLISH until it left the queue of one of its receivers.
        authentication: From CONNECT (or an AUTH that begins another one) until it was decided.
        authorization: Decisions that had to be waited for.
    """

    def __init__(self) -> None:
        self.clock: Callable[[], int] | None = None
        self.read_us: i64 = 0
        self.delivery = Histogram(_DELIVERY_S)
        self.queue = Histogram(_QUEUE_S)
        self.authentication = Histogram(_ACCESS_S)
        self.authorization = Histogram(_ACCESS_S)
        self._queued: i64 = 0

    def on_written(self) -> None:
        """What was read at `read_us` is written."""
        self.delivery.add(self._since_s(self.read_us))
        self.read_us = 0

    def on_unqueued(self, waited_us: i64) -> None:
        self._queued += 1
        if self._queued & _SAMPLED_QUEUED == 0:
            self.queue.add(int(max(0, waited_us)) / 1e6)

    def on_authenticated(self, began_us: i64) -> None:
        self.authentication.add(self._since_s(began_us))

    def on_authorized(self, asked_us: i64) -> None:
        """A decision is there that was waited for since then."""
        self.authorization.add(self._since_s(asked_us))

    def samples(self) -> list[Sample]:
        return [
            *self.delivery.samples("latency.delivery"),
            *self.queue.samples("latency.queue"),
            *self.authentication.samples("latency.authentication"),
            *self.authorization.samples("latency.authorization"),
        ]

    def _since_s(self, uptime_us: i64) -> float:
        clock = self.clock
        if clock is None:
            return 0.0
        passed: i64 = clock()
        return int(max(0, passed - uptime_us)) / 1e6
