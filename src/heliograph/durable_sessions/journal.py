"""Saves session state: the changes of one turn of the event loop are one atomic batch.

A batch that the disk refuses is kept, with all later ones, and submitted again until it is taken; what was held for it
stays held meanwhile. What is kept is the newest value of each key, so it does not grow with the time.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from heliograph.storage.errors import StorageError
from heliograph.storage.state.interface import StateBatch, StateDatabase

_log = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_PAGE: Final = 256


class SessionJournal:
    """Owned by `DurableSessions`; lives in the event-loop thread.

    Args:
        on_saved: Called with the number of each batch that is durable, in order.

    Attributes:
        batch: What changes in this turn; `cut` ends it.
        refusal: Why the disk refuses session state, while it does.
    """

    def __init__(
        self,
        database: StateDatabase,
        on_saved: Callable[[int], None],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self.batch = StateBatch()
        self.refusal: StorageError | None = None
        self._database = database
        self._on_saved = on_saved
        self._call_later = call_later
        self._submitted: deque[tuple[int, int, StateBatch]] = deque()  # ticket, number, batch
        self._refused: StateBatch | None = None
        self._refused_number = 0
        self._refusals = 0
        database.listen(self._on_committed)

    # --- reading, as if everything were written

    def get(self, key: bytes) -> bytes | None:
        """The newest value of a key, or None if it does not exist."""
        for batch in (self.batch, self._refused):
            if batch is not None and key in batch.changes:
                return batch.changes[key]
        return self._database.get(key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys with a prefix and their newest values; those on the disk in order, then those that are not yet."""
        seen = set()
        for page in self.pages(prefix):
            for key, value in page:
                seen.add(key)
                yield key, value
        for key, value in self._unwritten(prefix).items():
            if key not in seen:
                yield key, value

    def read_into(self, found: dict[bytes, bytes], prefix: bytes) -> Iterator[None]:
        """Read all keys with a prefix and their newest values, a page in each step."""
        for page in self.pages(prefix):
            found.update(page)
            if len(page) == _PAGE:
                yield
        found.update(self._unwritten(prefix))

    def _unwritten(self, prefix: bytes) -> dict[bytes, bytes]:
        """The newest values of keys with a prefix that the database was not given yet."""
        found: dict[bytes, bytes] = {}
        for batch in (self._refused, self.batch):
            for key, newest in batch.changes.items() if batch is not None else ():
                if not key.startswith(prefix):
                    continue
                if newest is None:
                    found.pop(key, None)
                else:
                    found[key] = newest
        return found

    def pages(self, prefix: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        """The keys with a prefix that the disk has, in pages that one turn may go through, with their newest values."""
        after = b""
        while True:
            page = self._database.scan(prefix, after, _PAGE)
            yield [(key, value) for key, old in page if (value := self._newest(key, old)) is not None]
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def _newest(self, key: bytes, value: bytes) -> bytes | None:
        for batch in (self.batch, self._refused):
            if batch is not None and key in batch.changes:
                return batch.changes[key]
        return value

    # --- writing

    def cut(self, number: int) -> None:
        """Submit what has changed, under a number; numbers rise."""
        batch, self.batch = self.batch, StateBatch()
        self._submit(number, batch)

    @property
    def is_idle(self) -> bool:
        return not self.batch and not self._submitted and self._refused is None

    def statistics(self) -> dict[str, int]:
        return {"durable_sessions.refused_commits": self._refusals, "durable_sessions.pending": len(self._submitted)}

    def _submit(self, number: int, batch: StateBatch) -> None:
        if self._refused is not None:
            _merge(self._refused, batch)
            self._refused_number = number
            return
        try:
            self._submitted.append((self._database.submit(batch), number, batch))
        except StorageError as error:
            self._keep(number, batch, error)

    def _on_committed(self, ticket: int, error: StorageError | None) -> None:
        if error is not None and self._submitted and self._submitted[0][0] <= ticket:
            merged = StateBatch()
            number = self._submitted[-1][1]
            while self._submitted:
                _merge(merged, self._submitted.popleft()[2])
            self._keep(number, merged, error)
            return
        while self._submitted and self._submitted[0][0] <= ticket:
            self._on_saved(self._submitted.popleft()[1])
            if self.refusal is not None:
                self.refusal = None
                _log.warning("the state of sessions is saved again")

    def _keep(self, number: int, batch: StateBatch, error: StorageError) -> None:
        self._refusals += 1
        if self.refusal is None:
            _log.error("the state of sessions cannot be saved [%s]: %s", error.code, error)
        self.refusal = error
        if self._refused is None:
            self._call_later(_RETRY_S, self._retry)
            self._refused = batch
        else:
            _merge(self._refused, batch)
        self._refused_number = number

    def _retry(self) -> None:
        batch, self._refused = self._refused, None
        if batch is not None:
            self._submit(self._refused_number, batch)


def _merge(batch: StateBatch, later: StateBatch) -> None:
    for prefix in later.prefixes:
        batch.delete_prefix(prefix)
    for key, value in later.changes.items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
