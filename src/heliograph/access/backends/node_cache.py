"""Answers of backends, kept for a while: what was asked with the same values is not asked again until then.

Rows, documents and HTTP responses are kept, never decisions: a password is compared each time, and rules are matched
each time. Failures are not kept.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from sys import getsizeof
from typing import Any, Final, Generic, TypeVar, cast

from heliograph.config.backends.node_cache import NodeCacheConfig
from heliograph.observe.metric import Metric, counter, gauge

AnswerT = TypeVar("AnswerT")

_ENTRY_BYTES: Final = 300  # what an entry costs besides its values and its answer
_DEPTH_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class CachedAnswer(Generic[AnswerT]):
    """An answer that is kept, which may be None; `until_us` is on the monotonic clock."""

    answer: AnswerT
    until_us: int
    size_bytes: int


def node_cache_metrics(prefix: str) -> tuple[Metric, ...]:
    """What the numbers of `NodeCache.statistics` are, for the part that owns one."""
    return (
        gauge(f"{prefix}.node_cache.count", "Answers of backends that are kept."),
        gauge(f"{prefix}.node_cache.memory_bytes", "Memory that they take, about.", "bytes"),
        counter(f"{prefix}.node_cache.hit", "Questions that one of them answered."),
        counter(f"{prefix}.node_cache.miss", "Questions that none of them answered."),
    )


class NodeCache:
    """The answers that a node keeps, for authentication or for authorization; owned by the part of that name.

    In memory, within the limits of its settings: of more answers than fit, those go first that came first.
    """

    def __init__(self, settings: NodeCacheConfig, clock: Callable[[], int]) -> None:
        self._settings = settings
        self._clock = clock
        self._kept: OrderedDict[Hashable, CachedAnswer[Any]] = OrderedDict()  # by when they came
        self._size_bytes = 0
        self._askers = 0
        self._hits = 0
        self._misses = 0

    def use(self, settings: NodeCacheConfig) -> None:
        """Use other settings; what is kept already is forgotten."""
        if settings != self._settings:
            self._settings = settings
            self.clear()

    def answers(self) -> "CachedAnswers":
        """A place for the answers of one asker, which no other one sees."""
        self._askers += 1
        return CachedAnswers(self, self._askers)

    def find(self, key: Hashable) -> CachedAnswer[Any] | None:
        if not self._settings.enable:
            return None
        kept = self._kept.get(key)
        if kept is None or kept.until_us <= self._clock():
            self._misses += 1
            return None
        self._hits += 1
        return kept

    def keep(self, key: Hashable, answer: object) -> None:
        settings = self._settings
        if not settings.enable:
            return
        size_bytes = _ENTRY_BYTES + _size_of(key) + _size_of(answer)
        if settings.max_memory is not None and size_bytes > settings.max_memory:
            return
        self._drop(key)
        self._kept[key] = CachedAnswer(answer, self._clock() + int(settings.cache_ttl * 1_000_000), size_bytes)
        self._size_bytes += size_bytes
        while self._has_too_much():
            self._drop(next(iter(self._kept)))

    def expire(self) -> None:
        """Forget what is too old to be used."""
        now_us = self._clock()
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest].until_us > now_us:
                return
            self._drop(oldest)

    def clear(self) -> int:
        """How many answers were forgotten."""
        count = len(self._kept)
        self._kept.clear()
        self._size_bytes = 0
        return count

    def statistics(self) -> dict[str, int]:
        return {
            "count": len(self._kept),
            "memory_bytes": self._size_bytes,
            "hit": self._hits,
            "miss": self._misses,
        }

    def _has_too_much(self) -> bool:
        count_max, memory_max = self._settings.max_count, self._settings.max_memory
        is_too_many = count_max is not None and len(self._kept) > count_max
        return is_too_many or (memory_max is not None and self._size_bytes > memory_max)

    def _drop(self, key: Hashable) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size_bytes -= kept.size_bytes

    def __repr__(self) -> str:
        return f"NodeCache({len(self._kept)} answers, {self._size_bytes} bytes)"


class CachedAnswers:
    """The answers that one authenticator or source got; made by `NodeCache.answers`, kept in that."""

    def __init__(self, cache: NodeCache, number: int) -> None:
        self._cache = cache
        self._number = number

    def find(self, values: Hashable) -> CachedAnswer[Any] | None:
        """The answer to a question with these values, if it is kept: then nothing must be waited for."""
        return self._cache.find((self._number, values))

    def keep(self, values: Hashable, answer: object) -> None:
        self._cache.keep((self._number, values), answer)

    async def answer(self, values: Hashable, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """The answer that is kept, or that of `ask`, which is kept from now on."""
        kept = self._cache.find((self._number, values))
        if kept is not None:
            return cast("AnswerT", kept.answer)
        answer = await ask()
        self.keep(values, answer)
        return answer


def _size_of(value: object, depth: int = 0) -> int:
    """About how much memory a value takes."""
    size = getsizeof(value)
    if depth == _DEPTH_MAX:
        return size
    if isinstance(value, Mapping):
        return size + sum(_size_of(key, depth + 1) + _size_of(one, depth + 1) for key, one in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return size + sum(_size_of(one, depth + 1) for one in value)
    if is_dataclass(value):
        return size + sum(_size_of(getattr(value, one.name), depth + 1) for one in fields(value))
    return size
