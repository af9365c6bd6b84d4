"""Changes of records that a process beside a node decides on, and the node writes.

Each says what the record was when that was decided, so what has changed since is never overwritten.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.engine import Rdict, WriteBatch, new_batch
from heliograph.storage.erasure.errors import ErasureFailedError

# What a node writes in one turn of its loop; one record may be larger.
_BYTES_MAX: Final = 32 << 10
_CHANGES_MAX: Final = 32


class RecordChange(NamedTuple):
    """What becomes of a record of a closed generation.

    Attributes:
        before: The checksum of what it was when that was decided; None where there was none.
        after: None where it is deleted.
    """

    key: bytes
    before: int | None
    after: bytes | None


class ChangeableDatabase(Protocol):
    """What is needed of a database of messages."""

    @property
    def name(self) -> str: ...

    def contents(self) -> tuple[Rdict, Catalog]: ...

    def rewrite(self, batch: WriteBatch) -> None: ...


class CollectedChanges:
    """Hands over changes of one database, some at a time.

    Args:
        rocks: The database as it is.
        hand_over: Takes some changes, in their order.
    """

    def __init__(self, rocks: Rdict, hand_over: Callable[[list[RecordChange]], object]) -> None:
        self._rocks = rocks
        self._hand_over = hand_over
        self._changes: list[RecordChange] = []
        self._bytes = 0

    def change(self, key: bytes, value: bytes | None) -> None:
        before = self._rocks.get(key)
        if before is None and value is None:
            return
        self._changes.append(RecordChange(key, _checksum(before), value))
        self._bytes += len(before or b"") + len(value or b"")
        if self._bytes >= _BYTES_MAX or len(self._changes) >= _CHANGES_MAX:
            self.write()

    def write(self) -> None:
        if self._changes:
            self._hand_over(self._changes)
        self._changes, self._bytes = [], 0


def apply_changes(database: ChangeableDatabase, changes: Sequence[RecordChange]) -> None:
    """Write some changes at once. Of a generation that was dropped nothing is written: nothing would ever remove it.

    Raises:
        ErasureFailedError: A record is not what it was; none of these changes is made.
        StorageError: The database does not take them.
    """
    rocks, _ = database.contents()
    batch, is_any = new_batch(), False
    for key, before, after in changes:
        value = rocks.get(key)
        if value == after or rocks.get(keys.generation(*keys.record_place(key))) is None:
            continue
        if _checksum(value) != before:
            raise ErasureFailedError(f"a record of the database {database.name} has changed since it was looked at")
        if after is None:
            batch.delete(key)
        else:
            batch.put(key, after)
        is_any = True
    if is_any:
        database.rewrite(batch)


def _checksum(value: bytes | None) -> int | None:
    return None if value is None else crc32(value)
