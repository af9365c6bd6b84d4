"""How fast one connected client may send: token buckets for its messages and for its bytes.

What comes too fast is not dropped: the channel stops reading until the bucket has what the last packet cost.
The rate of new connections is in `transport.limits`, those of retained messages are kept with `broker.allowance`.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.channel.options import ChannelOptions, ListenerOptions
from heliograph.session.outbox import Outbox, Wire
from heliograph.session.session import Session

_SECOND_US: Final = 1_000_000.0


class TokenBucket:
    """A bucket that fills at `rate` tokens a second and holds one second's worth and `burst` more.

    A packet may take more than there is; nothing else may then be taken until the debt is filled up.
    """

    def __init__(self, rate: float, burst: float, uptime_us: i64) -> None:
        self._rate = rate
        self._capacity = rate + burst
        self._tokens = self._capacity
        self._filled_at_us: i64 = uptime_us

    def take(self, count: float, uptime_us: i64) -> float:
        """Take `count` tokens; the microseconds until the next may be taken, 0 for at once."""
        elapsed: i64 = uptime_us - self._filled_at_us
        if elapsed > 0:
            self._tokens = min(self._capacity, self._tokens + self._rate * float(elapsed) / _SECOND_US)
            self._filled_at_us = uptime_us
        self._tokens -= count
        return 0.0 if self._tokens >= 0.0 else -self._tokens / self._rate * _SECOND_US


class RateLimiter:
    """The rates of one connection; made only where its listener has any."""

    def __init__(self, listener: ListenerOptions, uptime_us: i64) -> None:
        self._messages = _bucket(listener.messages_rate, listener.messages_burst, uptime_us)
        self._bytes = _bucket(listener.bytes_rate, listener.bytes_burst, uptime_us)

    def take(self, is_message: bool, packet_bytes: i64, uptime_us: i64) -> float:
        """A packet came: the microseconds that reading must pause for, 0 for none."""
        wait_us = 0.0
        if is_message and self._messages is not None:
            wait_us = self._messages.take(1.0, uptime_us)
        if self._bytes is not None:
            wait_us = max(wait_us, self._bytes.take(float(packet_bytes), uptime_us))
        return wait_us


def _bucket(rate: float, burst: float, uptime_us: i64) -> TokenBucket | None:
    return None if rate <= 0.0 else TokenBucket(rate, burst, uptime_us)


def is_over_ceiling(options: ChannelOptions, outbox: Outbox, wire: Wire, session: Session | None) -> bool:
    """Whether more waits for a peer that does not read than `force_shutdown` allows."""
    count = outbox.waiting_count + (0 if session is None else session.sender.queued_count)
    return (0 < options.unsent_bytes_max < outbox.waiting_bytes + wire.unsent_bytes()) or (
        0 < options.unsent_packets_max < count
    )
