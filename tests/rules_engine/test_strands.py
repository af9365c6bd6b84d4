"""Threads for rules that may block."""

import queue
import threading
from collections.abc import Callable

from heliograph.parts.threads import Threads
from heliograph.rules.engine.strands import Strand

WAIT_S = 30


class Loop:
    """An event loop that a test turns."""

    def __init__(self) -> None:
        self._callbacks: queue.Queue[Callable[[], None]] = queue.Queue()

    def hand_back(self, callback: Callable[[], None]) -> None:
        self._callbacks.put(callback)

    def turn(self) -> None:
        self._callbacks.get(timeout=WAIT_S)()


def test_a_strand_works_in_order_and_tells_in_the_loop() -> None:
    loop, threads, told = Loop(), Threads(4, "rules"), list[tuple[int, int]]()
    here = threading.get_ident()
    workers: set[int] = set()

    def work(item: int) -> int:
        workers.add(threading.get_ident())
        return item * 2

    strand: Strand[int, int] = Strand(
        threads, work, lambda item, result: told.append((item, result)), loop.hand_back, 1000
    )
    for item in range(100):
        assert strand.put(item)
    for _ in range(100):
        loop.turn()
    assert told == [(item, item * 2) for item in range(100)]
    assert here not in workers
    threads.stop()


def test_a_strand_that_hangs_holds_up_itself_alone_and_takes_so_many() -> None:
    loop, threads, told = Loop(), Threads(2, "rules"), list[str]()
    begun, free = threading.Event(), threading.Event()

    def hang(item: str) -> str:
        begun.set()
        free.wait(WAIT_S)
        return item

    slow: Strand[str, str] = Strand(threads, hang, lambda item, _: told.append(item), loop.hand_back, 2)
    quick: Strand[str, str] = Strand(threads, str.upper, lambda _, result: told.append(result), loop.hand_back, 2)
    assert slow.put("s1")
    assert begun.wait(WAIT_S)
    assert slow.put("s2")
    assert slow.put("s3")
    assert not slow.put("s4")
    assert quick.put("q")
    loop.turn()
    assert told == ["Q"]
    free.set()
    for _ in range(3):
        loop.turn()
    assert told == ["Q", "s1", "s2", "s3"]
    threads.stop()


def test_of_a_strand_that_was_closed_nobody_is_told() -> None:
    loop, threads, told = Loop(), Threads(1, "rules"), list[str]()
    begun, free = threading.Event(), threading.Event()

    def hang(item: str) -> str:
        begun.set()
        free.wait(WAIT_S)
        return item

    closed: Strand[str, str] = Strand(threads, hang, lambda item, _: told.append(item), loop.hand_back, 9)
    other: Strand[str, str] = Strand(threads, str.upper, lambda _, result: told.append(result), loop.hand_back, 9)
    closed.put("a")
    closed.put("b")
    assert begun.wait(WAIT_S)
    closed.close()
    assert not closed.put("c")
    other.put("x")
    free.set()
    loop.turn()
    assert told == ["X"]
    threads.stop()
