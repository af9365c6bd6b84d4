"""Runs of packets as columns, held against doing it one by one."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from heliograph_bench.runs import ages, id_after, id_sequence, packet_length, run_length

NOW = 1_700_000_000_000_000


@given(st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=40), st.binary(max_size=2))
def test_a_run_is_as_long_as_the_first_bytes_agree(rows: list[bytes], tail: bytes) -> None:
    expected = 1
    while expected < len(rows) and (rows[expected][0], rows[expected][2]) == (rows[0][0], rows[0][2]):
        expected += 1
    assert run_length(b"".join(rows) + tail, 0, 3, (2,)) == expected


@given(
    st.lists(
        st.tuples(st.integers(NOW - 10**9, NOW), st.sampled_from([1, 2, 20, 100])), min_size=1, max_size=12
    ).flatmap(lambda runs: st.permutations(runs))
)
def test_ages_are_those_of_the_single_messages(runs: list[tuple[int, int]]) -> None:
    stamps = [stamp for stamp, times in runs for _ in range(times)]
    data = b"".join(b"xy" + stamp.to_bytes(8, "big") + b"z" for stamp in stamps)
    found: Counter[int] = Counter()
    for age, times in ages(data, 0, 11, len(stamps), 2, NOW):
        found[age] += times
    assert found == Counter(NOW - stamp for stamp in stamps)


def test_a_timestamp_of_the_near_future_counts_as_no_latency() -> None:
    early, late = (NOW + 700).to_bytes(8, "big"), (NOW - 5).to_bytes(8, "big")
    assert list(ages(early, 0, 8, 1, 0, NOW)) == [(0, 1)]
    assert dict(ages(early + late, 0, 8, 2, 0, NOW)) == {0: 1, 5: 1}


@given(st.integers(1, 65535), st.integers(1, 65534))
def test_ids_follow_one_another_around_zero(first: int, count: int) -> None:
    high, low = id_sequence(first, count)
    assert (high[0] << 8 | low[0], len(high), len(low)) == (first, count, count)
    after = id_after(first, count - 1)
    assert (high[-1] << 8 | low[-1]) == after
    assert 1 <= after <= 65535


def test_a_length_is_known_once_its_bytes_are_there() -> None:
    wire = b"\x30\x80\x01" + bytes(128)
    assert packet_length(wire, 0, 2) == (0, 0)
    assert packet_length(wire, 0, 3) == (131, 3)
