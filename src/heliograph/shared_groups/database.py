"""What the database `shared_groups` has of groups, and how what their leaders submit is answered."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from heliograph.shared_groups import record
from heliograph.shared_groups.protocol import GroupName, Progress, Share
from heliograph.storage.errors import StorageError, UnknownStreamError
from heliograph.storage.state.interface import StateBatch, StateDatabase

_log = logging.getLogger(__name__)

_PAGE: Final = 1024


class GroupDatabase:
    """The records of all groups; owned by the registry of leaders, a view of the state database.

    Attributes:
        refusal: Why the database refuses what is read or saved, while it does.
        on_answers: Called when `answer` has something to do.
    """

    def __init__(self, state: StateDatabase) -> None:
        self.refused_saves = 0
        self._state = state
        self.on_answers: Callable[[], object] = lambda: self.answer(len(self._answers))
        self._commits: deque[tuple[int, Callable[[bool], None]]] = deque()
        self._answers: deque[tuple[Callable[[bool], None], bool]] = deque()  # and whether it was saved
        self.refusal: StorageError | None = None
        state.listen(self._on_committed)

    # --- reading

    def groups(self) -> Iterator[tuple[GroupName, bool]]:
        """Every group that has a record, and whether that can be read."""
        for key, value in self._scan(record.GROUP):
            group = record.group_of(key)
            yield group, self.decode(group, value) is not None

    def value(self, group: GroupName) -> bytes | None:
        """The record of a group as it stands there, for batches that expect it so."""
        return self._state.get(record.group_key(group))

    def find(self, group: GroupName) -> record.GroupRecord | None:
        """The record of a group, if there is one that can be read."""
        value = self.value(group)
        return self.decode(group, value)

    def decode(self, group: GroupName, value: bytes | None) -> record.GroupRecord | None:
        """What the record of a group says, if it can be read."""
        if value is None:
            return None
        try:
            return record.decode_group(value)
        except (ValueError, TypeError) as error:
            _log.error("the record of shared group %.200r cannot be read: %s", str(group), error)
            return None

    def progress(self, group: GroupName) -> dict[Share, Progress]:
        """How far the shares of a group are."""
        found = {}
        for key, value in self._scan(record.progress_prefix(group)):
            try:
                found[record.share_of_key(group, key)] = record.decode_progress(value)
            except (ValueError, TypeError, UnknownStreamError) as error:
                _log.error("progress of shared group %.200r cannot be read: %r: %s", str(group), key, error)
        return found

    def _scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        after = b""
        while True:
            page = self._state.scan(prefix, after, _PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    # --- saving

    def submit(self, batch: StateBatch, then: Callable[[bool], None]) -> None:
        """Commit a batch.

        Args:
            then: Called by `answer` when that is decided, with whether it was saved.
        """
        self._commits.append((self._state.submit(batch), then))

    def refuse(self, group: GroupName, error: StorageError) -> None:
        self.refused_saves += 1
        self.refusal = error
        _log.error("shared group %.200r cannot be kept [%s]: %s", str(group), error.code, error)

    def _on_committed(self, ticket: int, error: StorageError | None) -> None:
        if error is not None:
            self.refused_saves += 1
        self.refusal = error
        while self._commits and self._commits[0][0] <= ticket:
            self._answers.append((self._commits.popleft()[1], error is None))
        if self._answers:
            self.on_answers()

    def answer(self, count: int) -> bool:
        """Tell so many of those that submitted a batch what became of it; whether there are more."""
        for _ in range(min(count, len(self._answers))):
            then, is_saved = self._answers.popleft()
            then(is_saved)
        return bool(self._answers)

    def __repr__(self) -> str:
        return f"GroupDatabase({len(self._commits)} commits pending)"
