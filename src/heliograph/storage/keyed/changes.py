"""Changes of a keyed database that its RocksDB does not have yet, laid over what it has.

Readers see a change when it is made. It leaves this table when it was written, or when it was refused for good: then
what RocksDB has is seen again, so that readers soon see only what the disk has. Counts follow exactly, since
each change remembers what RocksDB has in its place.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable

ABSENT = -1

# Of a key: the size of its record in RocksDB, or `ABSENT`, and when that expires.
Base = tuple[int, int]


class KeyedChange:
    """A topic's new message, or none. Made by the database, handed to its commit queue once, then forgotten.

    Attributes:
        record: The message, or None to remove it.
        expires_us: When it expires, 0 for never.
        base: What RocksDB has under the key.
    """

    __slots__ = ("base", "expires_us", "key", "record")

    def __init__(self, key: bytes, record: bytes | None, expires_us: int) -> None:
        self.key = key
        self.record = record
        self.expires_us = expires_us
        self.base: Base = (ABSENT, 0)

    @property
    def size_bytes(self) -> int:
        """What it costs to hold."""
        return len(self.key) + (0 if self.record is None else len(self.record))

    @property
    def messages(self) -> int:
        """By how many messages it makes the database larger: -1, 0 or 1."""
        return (self.record is not None) - (self.base[0] != ABSENT)

    @property
    def bytes(self) -> int:
        """By how many bytes of keys and records."""
        now = 0 if self.record is None else len(self.key) + len(self.record)
        before = 0 if self.base[0] == ABSENT else len(self.key) + self.base[0]
        return now - before

    def as_base(self) -> Base:
        """What RocksDB has when this is written."""
        return (ABSENT, 0) if self.record is None else (len(self.record), self.expires_us)


class Removed:
    """Keys of one kind that were removed from RocksDB since their room was given back; owned by the database.

    RocksDB goes through the remains of removed keys one by one, in one call, so many in a row would hold up
    readers.
    """

    def __init__(self) -> None:
        self.count = 0
        self._lowest = b""
        self._highest = b""

    def add(self, key: bytes) -> None:
        if self.count == 0 or key < self._lowest:
            self._lowest = key
        self._highest = max(self._highest, key)
        self.count += 1

    def take(self) -> tuple[bytes, bytes]:
        """Between which keys they were; from now on, none."""
        found = self._lowest, self._highest + b"\0"
        self.count, self._highest = 0, b""
        return found


class PendingChanges:
    """The newest change of each key; owned by the database."""

    def __init__(self) -> None:
        self._newest: dict[bytes, KeyedChange] = {}
        self._keys: list[bytes] | None = None  # sorted, made when it is asked for
        self.messages = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._newest)

    def get(self, key: bytes) -> KeyedChange | None:
        return self._newest.get(key)

    def sorted_keys(self) -> list[bytes]:
        """All keys in order; the list is not changed by later changes."""
        if self._keys is None:
            self._keys = sorted(self._newest)
        return self._keys

    def add(self, change: KeyedChange, base: Base) -> None:
        """Lay a change over what there is.

        Args:
            base: What RocksDB has under its key; not looked at where a change of it is pending.
        """
        before = self._newest.get(change.key)
        if before is None:
            change.base = base
            self._keys = None
        else:
            change.base = before.base
            self._count(before, -1)
        self._newest[change.key] = change
        self._count(change, 1)

    def written(self, change: KeyedChange) -> None:
        """RocksDB has a change."""
        newest = self._newest[change.key]
        self._count(newest, -1)
        if newest is change:
            self._remove(change.key)
        else:
            newest.base = change.as_base()
            self._count(newest, 1)

    def refused(self, changes: Iterable[KeyedChange]) -> None:
        """Changes will not be written; what RocksDB has counts, or what was changed later."""
        for change in changes:
            if self._newest.get(change.key) is change:
                self._count(change, -1)
                self._remove(change.key)

    def rebase(self, base: Callable[[bytes], Base]) -> None:
        """RocksDB was opened again: look again at what it has."""
        for change in self._newest.values():
            self._count(change, -1)
            change.base = base(change.key)
            self._count(change, 1)

    def _remove(self, key: bytes) -> None:
        del self._newest[key]
        self._keys = None

    def _count(self, change: KeyedChange, sign: int) -> None:
        self.messages += sign * change.messages
        self.bytes += sign * change.bytes

    def __repr__(self) -> str:
        return f"PendingChanges({len(self._newest)} keys)"


def place_of(keys: list[bytes], key: bytes) -> int:
    """Where keys that are not below `key` begin."""
    return bisect_left(keys, key)
