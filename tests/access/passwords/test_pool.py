"""The pool for slow hashes: answers in the loop, a bounded queue, and nothing computed for clients that are gone."""

import asyncio
import threading
from collections.abc import Awaitable

import bcrypt
import pytest

from heliograph.access.passwords import PasswordCheck, PasswordPool, PasswordsBusyError
from heliograph.config.passwords import PasswordHashAlgorithm, PasswordThreads

BCRYPT = PasswordHashAlgorithm("bcrypt")
STORED = bcrypt.hashpw(b"public", bcrypt.gensalt(4))


async def test_quick_algorithms_answer_at_once_and_slow_ones_later() -> None:
    pool = PasswordPool(PasswordThreads())
    quick, slow = PasswordCheck(PasswordHashAlgorithm("plain"), pool), PasswordCheck(BCRYPT, pool)
    assert quick.check(b"a", b"a") is True
    assert quick.check(None, b"") is False
    assert quick.check_unknown(b"a") is False
    for password, expected in ((b"public", True), (b"wrong", False)):
        answer = slow.check(password, STORED)
        assert isinstance(answer, Awaitable)
        assert await answer is expected
    unknown = slow.check_unknown(b"public")
    assert isinstance(unknown, Awaitable)
    assert await unknown is False
    assert slow.check(None, STORED) is False
    pool.stop()


async def test_unknown_users_cost_what_users_with_hashes_of_their_own_cost() -> None:
    pool = PasswordPool(PasswordThreads())
    check = PasswordCheck(PasswordHashAlgorithm("sha256"), pool)
    own = PasswordHashAlgorithm("pbkdf2", None, None, "sha512", 1000, None)

    async def are_slow() -> list[bool]:
        answers = [check.check_unknown(b"public", f"user {at}") for at in range(40)]
        assert not any([answer if isinstance(answer, bool) else await answer for answer in answers])
        return [not isinstance(answer, bool) for answer in answers]

    assert not any(await are_slow())
    answer = check.check(b"public", b"0" * 128, b"salt", own)  # an imported user, and no other yet
    assert isinstance(answer, Awaitable)
    assert not await answer
    assert all(await are_slow())
    assert check.check(b"public", b"0" * 64) is False
    mixed = await are_slow()
    assert set(mixed) == {False, True}
    assert mixed == await are_slow()  # a name that is tried twice does not tell either
    pool.stop()


async def test_a_full_queue_refuses_and_one_that_goes_frees_its_place() -> None:
    pool = PasswordPool(PasswordThreads(threads=1, max_waiting=2))
    begun, free = threading.Event(), threading.Event()
    computed: list[str] = []

    def hang() -> bool:
        begun.set()
        return free.wait(30)

    def note() -> bool:
        computed.append("it")
        return True

    first = pool.run(hang)
    await asyncio.to_thread(begun.wait, 30)
    second = pool.run(note)
    with pytest.raises(PasswordsBusyError):
        pool.run(note)
    pool.use(PasswordThreads(threads=1, max_waiting=3))
    fourth = pool.run(note)
    pool.use(PasswordThreads(threads=1, max_waiting=2))
    for one in (second, fourth):
        one.cancel()
    await asyncio.sleep(0)
    third = pool.run(note)
    free.set()
    assert await first
    assert await third
    await asyncio.sleep(0)
    assert computed == ["it"], "what was cancelled is not computed"
    assert pool.statistics() == {"passwords.waiting": 0, "passwords.checked": 2, "passwords.refused": 1}
    pool.stop()
