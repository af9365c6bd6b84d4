"""A histogram of latencies of constant size, exact to one percent. It knows no clock."""

from typing import Final

_SUB_BITS: Final = 7
_SUB: Final = 1 << _SUB_BITS

PERCENTILES: Final = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9))


class Latencies:
    """Latencies in microseconds, counted in buckets whose width is at most 1/128 of their value.

    Log-linear buckets as in HdrHistogram: values below 256 are exact; above, every power of two is cut into 128.
    One run owns one; the clients of the run record into it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.max_us = 0
        self._buckets: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Latencies(count={self.count}, p50={self.percentile(50)} us, max={self.max_us} us)"

    def record(self, latency_us: int, times: int = 1) -> None:
        shift = max(latency_us.bit_length() - _SUB_BITS - 1, 0)
        bucket = (shift << _SUB_BITS) + (latency_us >> shift)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + times
        self.count += times
        self.max_us = max(self.max_us, latency_us)

    def percentile(self, percent: float) -> int:
        """The latency in microseconds that `percent` of the messages did not exceed (0 without messages)."""
        wanted = self.count * percent / 100
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(_upper_end(bucket), self.max_us)
        return self.max_us

    def statistics(self) -> dict[str, int]:
        """Percentiles and maximum in microseconds, by their names."""
        return {name: self.percentile(percent) for name, percent in PERCENTILES} | {"max": self.max_us}


def _upper_end(bucket: int) -> int:
    if bucket < 2 * _SUB:
        return bucket
    shift = (bucket >> _SUB_BITS) - 1
    return ((bucket - (shift << _SUB_BITS) + 1) << shift) - 1
