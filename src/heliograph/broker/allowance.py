"""A rate limit: at most so many events in a time. Whether the rest waits or is refused, the caller decides."""

from mypy_extensions import i64


class Allowance:
    """A number of things for every interval; after a rest all of them may come at once."""

    def __init__(self, amount: i64, interval_us: i64) -> None:
        self._interval_ns: i64 = interval_us * 1000
        self._step_ns: i64 = self._interval_ns // amount
        self._used_until_ns: i64 = 0  # when all that was taken would have come, had it come evenly

    def is_spent(self, uptime_us: i64) -> bool:
        return self._used_until_ns + self._step_ns > uptime_us * 1000 + self._interval_ns

    def is_whole(self, uptime_us: i64) -> bool:
        """Whether it is as if nothing had been taken."""
        return self._used_until_ns <= uptime_us * 1000

    def take(self, uptime_us: i64) -> None:
        now_ns: i64 = uptime_us * 1000
        if self._used_until_ns < now_ns:
            self._used_until_ns = now_ns
        self._used_until_ns += self._step_ns
