"""How long messages are kept: when the current generation is closed, and which old ones are dropped.

A generation is dropped whole, which costs the same however much it holds. So what may be dropped is decided by the
newest message of a generation (when it was closed), and messages are kept for `retention` at least and for one
`generation_interval` longer at most. Deciding is done here; the database does it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from heliograph.storage.columnar.block import OFFLOADED_VERSION
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import GenerationInfo

_log = logging.getLogger(__name__)

# One in so many parts of `max_bytes` is what a generation may hold, and so what is dropped at once.
_PARTS: Final = 8
_CHECK_INTERVAL_US: Final = 10_000_000
_CHECK_INTERVAL_MIN_US: Final = 500_000


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """What the operator says; None for no limit.

    Attributes:
        generation_interval_us: How long a generation is written.
        max_bytes: How large all table files may become.
    """

    retention_us: int | None = None
    generation_interval_us: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """How large a database is.

    Attributes:
        current_bytes: What the current generation was given: topics and payloads, before compression.
        is_freeing: Whether files of a dropped generation are still there.
    """

    table_bytes: int
    current_bytes: int
    current_is_empty: bool
    is_freeing: bool


class RetainingDatabase(Protocol):
    """What retention needs of a database."""

    @property
    def is_open(self) -> bool: ...

    def usage(self) -> Usage: ...

    def list_generations(self) -> Sequence[GenerationInfo]: ...

    def add_generation(self) -> None: ...

    def drop_generation(self, number: int) -> None: ...


class GenerationRetention:
    """Closes and drops the generations of one database. Owned by the node, called by its ticker with the time."""

    def __init__(self, database: RetainingDatabase, options: RetentionOptions) -> None:
        self._database = database
        self._failures = 0
        self.use(options)

    def use(self, options: RetentionOptions) -> None:
        """Use other limits, from the next tick on."""
        self._options = options
        times = [one for one in (options.retention_us, options.generation_interval_us) if one is not None]
        self._check_interval_us = max(min([one // 4 for one in times] + [_CHECK_INTERVAL_US]), _CHECK_INTERVAL_MIN_US)
        self._next_check_us = 0

    def tick(self, now_us: int) -> None:
        """Look now and then, at most every 10 s, and do at most one step: so no look takes longer than one write."""
        if not self._database.is_open:
            self._next_check_us = 0  # looked at as soon as it is open, which on a full disk may be for one write only
        elif not self._next_check_us - self._check_interval_us <= now_us < self._next_check_us:
            self._next_check_us = now_us + self._check_interval_us
            self.enforce(now_us)

    def enforce(self, now_us: int) -> None:
        """Do what is due: begin a generation, or drop the oldest one."""
        try:
            generations, usage = self._database.list_generations(), self._database.usage()
            if is_rotation_due(generations, usage, self._options, now_us):
                self._database.add_generation()
            elif (number := due_drop(generations, usage, self._options, now_us)) is not None:
                self._database.drop_generation(number)
        except StorageError as error:
            if not self._failures:
                _log.error("messages that are too old cannot be removed now [%s]: %s", error.code, error)
            self._failures += 1

    def statistics(self) -> dict[str, float]:
        return {"retention_failures": self._failures}


def is_rotation_due(
    generations: Sequence[GenerationInfo], usage: Usage, options: RetentionOptions, now_us: int
) -> bool:
    """Whether the current generation is to be closed: it is old or large enough, and there is something in it."""
    if usage.current_is_empty:
        return False
    since = max(generation.since for generation in generations if generation.until is None)
    interval, size = options.generation_interval_us, options.max_bytes
    return (interval is not None and now_us >= since + interval) or (
        size is not None and usage.current_bytes >= size // _PARTS
    )


def due_drop(generations: Sequence[GenerationInfo], usage: Usage, options: RetentionOptions, now_us: int) -> int | None:
    """The generation to drop now, or None: the oldest, if all of it is too old, or the files together too large."""
    closed = [(one.number, one.until) for one in generations if one.until is not None]
    if not closed:
        return None
    number, until = min(closed)
    if options.retention_us is not None and until <= now_us - options.retention_us:
        return number
    # What was dropped last may still lie in its files, which is no reason to drop more; nor does it make room to drop
    # what was offloaded.
    too_large = options.max_bytes is not None and usage.table_bytes > options.max_bytes
    local = [one.number for one in generations if one.until is not None and one.layout_version < OFFLOADED_VERSION]
    return min(local, default=None) if too_large and not usage.is_freeing else None
