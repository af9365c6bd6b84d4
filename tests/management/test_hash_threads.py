"""Hashes of passwords wait in a queue that has an end."""

import asyncio
import threading

import pytest

from heliograph.management.people.hash_threads import THREADS, WAITING_MAX, HashesBusyError, HashThreads


async def test_two_hashes_are_made_at_once_and_more_than_may_wait_are_refused() -> None:
    pool, go_on, begun = HashThreads(), threading.Event(), threading.Semaphore(0)

    def work() -> bool:
        begun.release()
        return go_on.wait(20)

    waiting = [asyncio.create_task(pool.run(work)) for _ in range(WAITING_MAX)]
    for _ in range(THREADS):
        assert await asyncio.to_thread(begun.acquire, timeout=20)
    assert not begun.acquire(blocking=False)
    with pytest.raises(HashesBusyError):
        await pool.run(work)
    known = asyncio.create_task(pool.run(lambda: True, is_known=True))
    go_on.set()
    assert await known
    assert all(await asyncio.gather(*waiting))
    assert await pool.run(lambda: 7) == 7
    pool.stop()
