"""The first records of groups that begin asleep: where each begins, written before it has a leader."""

from collections import deque
from collections.abc import Callable
from typing import Final

from heliograph.shared_groups import record
from heliograph.shared_groups.database import GroupDatabase
from heliograph.shared_groups.protocol import GroupName
from heliograph.storage.errors import StorageError
from heliograph.storage.state.interface import StateBatch

_WRITTEN_AT_ONCE: Final = 64  # less than 1 ms

Begins = tuple[int, int]  # the commit time and the time of the broker that messages of a group are later than


class FirstRecords:
    """The groups that have no record yet; owned by the registry. `on_more` asks for `write_some` in a later turn."""

    def __init__(self, database: GroupDatabase, on_more: Callable[[], object]) -> None:
        self._database = database
        self._on_more = on_more
        self._begins: dict[GroupName, Begins] = {}
        self._waiting: deque[GroupName] = deque()  # those whose turn it is
        self._refused: list[GroupName] = []  # those whose turn it was

    def add(self, group: GroupName, begins: Begins) -> None:
        """A group begins: write its record soon."""
        self._begins[group] = begins
        self._waiting.append(group)
        self._on_more()

    def take(self, group: GroupName) -> Begins | None:
        """Where a group begins that has no record yet; it needs none any more."""
        return self._begins.pop(group, None)

    def retry(self) -> None:
        self._waiting.extend(self._refused)
        self._refused.clear()

    def write_now(self) -> None:
        while self._waiting:
            self.write_some()

    def write_some(self) -> None:
        batch = StateBatch()
        written = []
        for _ in range(min(_WRITTEN_AT_ONCE, len(self._waiting))):
            group = self._waiting.popleft()
            begins = self._begins.get(group)
            if begins is not None:  # else it was dropped, or is led already
                batch.put(record.group_key(group), record.encode_group(record.GroupRecord("", 0, 0, *begins)))
                written.append((group, begins))
        if self._waiting:
            self._on_more()
        if not written:
            return
        try:
            self._database.submit(batch, lambda is_saved: self._on_written(written, is_saved))
        except StorageError as error:
            self._database.refuse(written[0][0], error)
            self._on_written(written, False)

    def _on_written(self, written: list[tuple[GroupName, Begins]], is_saved: bool) -> None:
        for group, begins in written:
            if self._begins.get(group) is begins:
                if is_saved:
                    del self._begins[group]
                else:
                    self._refused.append(group)

    def __repr__(self) -> str:
        return f"FirstRecords({len(self._begins)} groups)"
