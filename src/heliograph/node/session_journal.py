"""Bringing session state to the disk: what one turn of the event loop changes is one atomic batch.

A batch that the disk refuses is kept, with all later ones, and submitted again until it is taken; what was held for it
stays held meanwhile. What is kept is the newest value of each key, so it does not grow with the time.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from heliograph.storage.errors import StorageError
from heliograph.storage.state import StateBatch, StateDatabase

_log = logging.getLogger(__name__)

_RETRY_S: Final = 0.5


class SessionJournal:
    """Owned by `DurableSessions`; lives in the event-loop thread.

    Args:
        database: Where the records go.
        on_saved: Called with the number of each batch that is durable, in order.
        call_later: Calls what it is given after so many seconds.
    """

    def __init__(
        self,
        database: StateDatabase,
        on_saved: Callable[[int], None],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._database = database
        self._on_saved = on_saved
        self._call_later = call_later
        self._submitted: deque[tuple[int, int, StateBatch]] = deque()  # ticket, number, batch
        self._refused: StateBatch | None = None
        self._refused_number = 0
        self._refusals = 0
        database.listen(self._on_committed)

    def submit(self, number: int, batch: StateBatch) -> None:
        """Take a batch; numbers rise."""
        if self._refused is not None:
            _merge(self._refused, batch)
            self._refused_number = number
            return
        try:
            self._submitted.append((self._database.submit(batch), number, batch))
        except StorageError as error:
            self._keep(number, batch, error)

    @property
    def is_idle(self) -> bool:
        """Whether everything is durable."""
        return not self._submitted and self._refused is None

    def statistics(self) -> dict[str, int]:
        """How often the disk refused session state, and how many batches wait for it."""
        return {"durable_sessions.refused_commits": self._refusals, "durable_sessions.pending": len(self._submitted)}

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

    def _keep(self, number: int, batch: StateBatch, error: StorageError) -> None:
        self._refusals += 1
        if self._refusals == 1 or self._refused is None:
            _log.error("the state of sessions cannot be saved [%s]: %s", error.code, error)
        if self._refused is None:
            self._call_later(_RETRY_S, self._retry)
            self._refused = batch
        else:
            _merge(self._refused, batch)
        self._refused_number = number

    def _retry(self) -> None:
        batch, self._refused = self._refused, None
        if batch is not None:
            self.submit(self._refused_number, batch)


def _merge(batch: StateBatch, later: StateBatch) -> None:
    """Add what a later batch changes."""
    for prefix in later.prefixes:
        batch.delete_prefix(prefix)
    for key, value in later.changes.items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
