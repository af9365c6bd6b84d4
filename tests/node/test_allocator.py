"""What was freed and stays with the process is told apart from what somebody holds."""

from heliograph.node.allocator import Allocator
from heliograph.node.memory_limit import resident_bytes

_COUNT = 100_000


def test_what_is_freed_in_pieces_is_free() -> None:
    allocator = Allocator(resident_bytes)
    small = [bytes(100) for _ in range(_COUNT)]
    large = [bytes(5000) for _ in range(_COUNT // 50)]
    before = allocator.free_bytes()
    kept = small[::2], large[::2]
    small.clear()
    large.clear()
    freed = allocator.free_bytes() - before
    assert freed > (_COUNT * 130 + _COUNT // 50 * 5000) // 2 * 0.9
    assert len(kept[0]) + len(kept[1]) > 0


def test_what_was_given_back_is_not_counted() -> None:
    allocator = Allocator(resident_bytes)
    pages = [bytes(5000) for _ in range(_COUNT // 10)]
    last = bytes(5000)  # what is freed below it does not go back by itself
    pages.clear()
    before = allocator.free_bytes()
    allocator.trim()
    assert allocator.free_bytes() < before - _COUNT // 10 * 4000 * 0.8
    assert len(last) == 5000
