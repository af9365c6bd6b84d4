"""What was freed and stays with the process is told apart from what somebody holds."""

from heliograph.node.memory_limit import Allocator

_COUNT = 100_000


def test_what_is_freed_in_pieces_is_free() -> None:
    allocator = Allocator()
    small = [bytes(100) for _ in range(_COUNT)]
    large = [bytes(5000) for _ in range(_COUNT // 50)]
    _, before = allocator.measure()
    kept = small[::2], large[::2]
    small.clear()
    large.clear()
    _, after = allocator.measure()
    assert after - before > (_COUNT * 130 + _COUNT // 50 * 5000) // 2 * 0.9
    assert len(kept[0]) + len(kept[1]) > 0


def test_what_was_given_back_is_not_counted_and_what_is_taken_and_freed_again_is() -> None:
    allocator = Allocator()
    size = _COUNT // 10 * 4000 * 0.8
    pages = [bytes(5000) for _ in range(_COUNT // 10)]
    last = bytes(5000)  # what is freed below it does not go back by itself
    pages.clear()
    _, before = allocator.measure()
    allocator.trim()
    _, given_back = allocator.measure()
    assert given_back < before - size
    pages = [bytes(5000) for _ in range(_COUNT // 10)]
    pages.clear()
    _, again = allocator.measure()
    assert again > given_back + size
    assert len(last) == 5000


def test_all_that_is_measured_is_of_one_moment() -> None:
    resident, free = Allocator().measure()
    assert 0 <= free < resident.own_bytes < resident.all_bytes
