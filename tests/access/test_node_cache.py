"""Answers of backends that a node keeps."""

from dataclasses import replace

import pytest

from heliograph.access.backends.node_cache import NodeCache
from heliograph.config.backends.node_cache import NodeCacheConfig

ON = NodeCacheConfig(enable=True)


class Backend:
    """A backend that counts what it is asked, under a clock that a test moves."""

    def __init__(self, settings: NodeCacheConfig = ON) -> None:
        self.now_us = 0
        self.asked = 0
        self.says: object = [{"password_hash": "x"}]
        self.cache = NodeCache(settings, lambda: self.now_us)
        self.answers = self.cache.answers()

    async def ask(self, *values: object) -> object:
        return await self.answers.answer(values, self._query)

    async def _query(self) -> object:
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


async def test_what_was_asked_with_the_same_values_is_not_asked_again_until_it_is_too_old() -> None:
    backend = Backend()
    assert await backend.ask("alice") == await backend.ask("alice") == [{"password_hash": "x"}]
    await backend.ask("bob")
    assert backend.asked == 2
    backend.now_us = 60_000_000
    await backend.ask("alice")
    assert backend.asked == 3
    assert backend.cache.statistics()["hit"] == 1


async def test_that_there_is_nothing_is_an_answer_too() -> None:
    backend = Backend()
    backend.says = None
    assert await backend.ask("alice") is None
    assert await backend.ask("alice") is None
    assert backend.asked == 1
    kept = backend.answers.find(("alice",))
    assert kept is not None
    assert kept.answer is None


async def test_a_failure_is_not_kept() -> None:
    backend = Backend()
    backend.says = OSError("down")
    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            await backend.ask("alice")
    assert backend.asked == 2
    assert backend.cache.statistics()["count"] == 0


async def test_askers_do_not_see_the_answers_of_others_nor_of_their_earlier_settings() -> None:
    backend = Backend()
    await backend.ask("alice")
    backend.answers = backend.cache.answers()
    await backend.ask("alice")
    assert backend.asked == 2


async def test_what_does_not_fit_goes_the_oldest_first() -> None:
    backend = Backend(replace(ON, max_count=2))
    for name in ("alice", "bob", "carol"):
        await backend.ask(name)
    assert backend.answers.find(("alice",)) is None
    assert backend.answers.find(("carol",)) is not None
    backend.cache.use(replace(ON, max_memory=10_000))
    assert backend.cache.statistics()["count"] == 0
    backend.says = "x" * 4_000
    for name in ("alice", "bob", "carol"):
        await backend.ask(name)
    assert backend.cache.statistics()["count"] == 2
    assert backend.cache.statistics()["memory_bytes"] <= 10_000
    backend.says = "x" * 20_000
    await backend.ask("dave")
    assert backend.cache.statistics()["count"] == 2


async def test_old_answers_are_forgotten_and_nothing_is_kept_that_is_switched_off() -> None:
    backend = Backend()
    await backend.ask("alice")
    backend.now_us = 61_000_000
    backend.cache.expire()
    assert backend.cache.statistics()["memory_bytes"] == 0
    backend.cache.use(NodeCacheConfig())
    await backend.ask("alice")
    await backend.ask("alice")
    assert backend.asked == 3
    assert backend.cache.statistics()["count"] == 0
