"""What a database says of an offloaded generation, and the errors of messages that were offloaded."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from heliograph.storage.columnar import keys
from heliograph.storage.engine import Rdict
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import StreamIterator
from heliograph.storage.topic_structure import HASH_BYTES


@dataclass(frozen=True, slots=True)
class OffloadedFile:
    """A file below the target.

    Attributes:
        size: In bytes.
        checksum: Of its footer, which says where everything else is; that has checksums of its own.
    """

    path: str
    size: int
    rows: int
    checksum: int

    def to_json(self) -> dict[str, object]:
        return asdict(self)


class OffloadState(StrEnum):
    REPLACING = "replacing"  # the files are whole; stubs are taking the place of blocks
    OFFLOADED = "offloaded"
    DROPPED = "dropped"  # the generation is gone, its files are still to be removed


@dataclass(frozen=True, slots=True)
class OffloadRecord:
    """The offload of one generation of one shard; `target` is the setting at the time."""

    target: str
    files: Sequence[OffloadedFile]
    state: OffloadState

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "OffloadRecord":
        fields = json.loads(data)
        files = tuple(OffloadedFile(**file) for file in fields["files"])
        return cls(fields["target"], files, OffloadState(fields["state"]))


class Replacement(NamedTuple):
    """A stub, and what the topic index of its stream says instead of before.

    The index must be written again, since a stub need not end where a block did that was merged.

    Attributes:
        stub: What takes the place of blocks.
        entries: The hashes of its topics, side by side.
        old_entries: Hashes and tails of the entries that lead to what it takes the place of, side by side.
    """

    key: bytes
    stub: bytes
    entries: bytes
    old_entries: bytes

    @property
    def operations(self) -> int:
        """About how many records it writes and removes."""
        return 2 + len(self.entries) // HASH_BYTES + len(self.old_entries) // (HASH_BYTES + keys.TAIL_BYTES)


def offload_record(database: Rdict, shard: int, number: int) -> OffloadRecord | None:
    """What is said of one generation of one shard, or None if it was not offloaded."""
    value = database.get(keys.offloaded(shard, number))
    return None if value is None else _record_of(value)


@lru_cache(16)
def _record_of(value: bytes) -> OffloadRecord:
    """Each block of a generation asks for its record."""
    return OffloadRecord.from_bytes(value)


class OffloadError(StorageError):
    """Messages that were offloaded cannot be written or read where they are kept.

    Attributes:
        iterator: For `next`: where to go on, since everything before it was looked at.
    """

    code = "storage_offload_unreachable"
    advice = "Make that place reachable, with the file as it was written; it is tried again."

    iterator: StreamIterator | None = None


class OffloadPendingError(OffloadError):
    """What was offloaded is being fetched."""

    code = "storage_offload_pending"
    advice = "Ask again in a moment."
