"""The histogram, held against sorting."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph_bench.latency import Latencies


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=200), st.sampled_from([50.0, 90.0, 99.0, 99.9, 100.0]))
def test_percentiles_are_exact_to_one_percent(values: list[int], percent: float) -> None:
    latencies = Latencies()
    for value in values:
        latencies.record(value)
    rank = max(-(-len(values) * percent // 100), 1)
    exact = sorted(values)[int(rank) - 1]
    assert exact <= latencies.percentile(percent) <= exact * 1.01 + 1
    assert latencies.max_us == max(values)


def test_messages_of_one_latency_are_counted_together() -> None:
    latencies = Latencies()
    latencies.record(10, 99)
    latencies.record(5000)
    assert latencies.statistics() == {"p50": 10, "p90": 10, "p99": 10, "p99.9": 5000, "max": 5000}


def test_nothing_recorded_is_zero() -> None:
    assert Latencies().percentile(99) == 0
