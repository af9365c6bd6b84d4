"""The table of when retained messages are due."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph.retainer.memory import ExpirySlots

NOW_S = 1_700_000_000


@given(st.lists(st.integers(1, 4_294_967_295), min_size=1, max_size=50))
def test_a_slot_is_due_after_its_time_and_soon_after(lifetimes_s: list[int]) -> None:
    table = ExpirySlots()
    for slot, lifetime_s in enumerate(lifetimes_s):
        due_s = table.add(slot, NOW_S + lifetime_s, NOW_S)
        assert lifetime_s <= due_s - NOW_S <= lifetime_s * 9 / 8 + 1
    for lifetime_s in sorted(lifetimes_s):
        early = table.take_due(NOW_S + lifetime_s - 1, 100)
        assert all(lifetimes_s[slot] < lifetime_s for slot in early)
    assert len(table.take_due(NOW_S + 5_000_000_000, 100)) <= len(lifetimes_s)
    assert len(table) == 0


def test_any_lifetimes_make_few_entries() -> None:
    table = ExpirySlots()
    slot = 0
    for now_s in range(NOW_S, NOW_S + 3600):
        for lifetime_s in (1 + slot % 97, 50 + slot % 9973, 86_400 + slot * 7, 4_294_967_295 - slot):
            table.add(slot, now_s + lifetime_s, now_s)
            slot += 1
        table.take_due(now_s, slot)
    assert len(table) < 600


def test_a_slot_that_was_taken_out_is_never_due() -> None:
    table = ExpirySlots()
    due_s = table.add(1, NOW_S + 10, NOW_S)
    table.add(2, NOW_S + 10, NOW_S)
    table.discard(1, due_s)
    table.discard(1, due_s)
    assert table.take_due(NOW_S + 100, 10) == [2]
    assert table.take_due(NOW_S + 100, 10) == []
