"""The `keyed` layout: a table of the newest message of each topic, in the order of topics.

Its messages are changed one by one, by `put` and `remove`. A change is seen by readers at once; it is on the disk when
it went through `write` and a sync, by a commit queue as a rule.

`records` says what is on the disk, `changes` keeps what is not there yet, `topics` knows which streams there are,
`walk` finds topics.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from heliograph.storage.engine import Rdict, new_batch, records
from heliograph.storage.errors import (
    StorageBusyError,
    StorageClosedError,
    StorageDamagedError,
    StorageError,
    UnknownLayoutError,
)
from heliograph.storage.interface import KeyedOptions, StorableMessage
from heliograph.storage.keyed import records as records_of
from heliograph.storage.keyed.changes import ABSENT, Base, KeyedChange, PendingChanges, Removed
from heliograph.storage.keyed.topics import KeyedTopics
from heliograph.storage.keyed.walk import Found, KeyedWalk
from heliograph.storage.store import KeptInStore, Store

_FOLDER: Final = "keyed"
_NEVER: Final = 1 << 62
# Of so many removed keys, and of such a part of all, the remains are taken out of RocksDB's files.
_REMAINS_MIN: Final = 20_000
_REMAINS_PART: Final = 16
_UNPLACED: Final = b""  # the key of a change that came while the topic structure was not known


def keyed_path(data_dir: Path) -> Path:
    """Where the tables of a node lie: one RocksDB each, beside the databases of messages."""
    return data_dir / _FOLDER


class KeyedTable(KeptInStore):
    """One table, on its own RocksDB; what a commit queue of changes needs.

    Owned by the thread that opened it. It may be out of order: what is written is then refused until it works again.

    Args:
        options: How a new one learns topics.
        clock: Gives the time of changes in µs; those of one table always rise.
        reopen_interval_s: How long a table that failed is left alone before it is opened again.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        options: KeyedOptions = KeyedOptions(),  # noqa: B008 - it cannot be changed
        *,
        clock: Callable[[], int] | None = None,
        reopen_interval_s: float = 1.0,
    ) -> None:
        self._options = options
        self._clock = clock or (lambda: time.time_ns() // 1000)
        super().__init__(Store(name, path, "lz4", self._prepare, reopen_interval_s))
        self._pending = PendingChanges()
        self._messages = 0  # in RocksDB
        self._bytes = 0
        self._unplaced_for: StorageError | None = None  # why the last change found no place
        self._swept_us = 0  # what was due until then was found
        self._removed = Removed()
        self._removed_due = Removed()
        self.topics = KeyedTopics(name, options.nodes_max)
        self.opened = 0  # how often it was opened so far
        self.last_time = 0  # of the newest change

    def __len__(self) -> int:
        return self._messages + self._pending.messages

    @property
    def size_bytes(self) -> int:
        return self._bytes + self._pending.bytes

    def open(self) -> None:
        """Open it, creating it if it does not exist. Takes as long however many messages there are."""
        self._store.open()

    def close(self) -> None:
        """Leave everything that was written on the disk; the table cannot be used any more."""
        self._store.close()

    def statistics(self) -> dict[str, float]:
        return {
            "open": int(self._store.is_open),
            "memory_bytes": self._store.memory_bytes(),
            "messages": len(self),
            "bytes": self.size_bytes,
            "pending_changes": len(self._pending),
            "streams": self.topics.stream_count,
            "learned_levels": self.topics.level_count,
        }

    # --- reading

    def get(self, topic: str) -> bytes | None:
        """The record of a topic's message, as it is now."""
        key = self.topics.find(topic)
        if key is None:
            return None
        pending = self._pending.get(key)
        if pending is not None:
            return pending.record
        with self._store.reading() as rocks:
            record: bytes | None = rocks.get(key)
            return record

    def walk(self, topic_filter: str, after: bytes = b"") -> KeyedWalk:
        """A walk through the topics of a filter, from behind a key."""
        return KeyedWalk(topic_filter, self.topics, self.topics.streams(topic_filter), after)

    def step(self, walk: KeyedWalk, count: int, size_bytes: int, cost: int) -> Found:
        """Go on with a walk, as far as one of the limits allows."""
        with self._store.reading() as rocks:
            return walk.step(rocks, self._pending, count, size_bytes, cost)

    def keys(self, after: bytes, count: int, size_bytes: int) -> list[tuple[bytes, str]]:
        """The keys and topics of messages on the disk, in order, from behind a key (empty to begin).

        They and their messages may have `size_bytes`, not counting the last one.
        """
        found: list[tuple[bytes, str]] = []
        with self._store.reading() as rocks:
            for key, record in records(rocks, *records_of.message_range(after)):
                found.append((key, records_of.topic_of(key)))
                size_bytes -= len(key) + len(record)
                if len(found) == count or size_bytes <= 0:
                    break
        return found

    def pending_topics(self) -> list[str]:
        """The topics of changes that are not on the disk yet."""
        return [records_of.topic_of(key) for key in self._pending.sorted_keys() if key != _UNPLACED]

    def due(self, now_us: int, count: int) -> list[bytes]:
        """The keys of messages that have expired, at most so many, the first to expire first.

        The caller removes them; they are reported once. What is not written yet is found later.
        """
        found: list[bytes] = []
        with self._store.reading() as rocks:
            # What is behind the last look are only the remains of entries, which take long to go through.
            for entry, _ in records(rocks, *records_of.due_range(self._swept_us, now_us)):
                due_us, key = records_of.read_due(entry)
                # An entry of an earlier message may be left over where that could not be read when it was replaced.
                if self._pending.get(key) is None and self._base(key)[1] == due_us:
                    found.append(key)
                if len(found) == count:
                    self._swept_us = due_us
                    return found
        self._swept_us = max(self._swept_us, now_us)
        return found

    # --- changing

    def put(self, message: StorableMessage, expires_us: int = 0, expiry_s: int = -1) -> KeyedChange:
        """Make a message the one of its topic.

        Args:
            expires_us: When it is to be found by `due`, in µs since the epoch; 0 for never.
            expiry_s: Its message expiry interval, -1 for none; only kept.

        Returns:
            The change, which is to be handed to `write`.
        """
        if not self._can_place():
            return KeyedChange(_UNPLACED, None, 0)
        key = self.topics.learn(message.topic)
        record = records_of.pack(message, self._next_time(), expires_us, expiry_s)
        return self._add(KeyedChange(key, record, expires_us), None)

    def remove(self, topic: str, *, even_if_absent: bool = False) -> KeyedChange | None:
        """Take a topic's message away: the change, as of `put`, or None if there is nothing to do.

        Args:
            even_if_absent: Whether a change is wanted where there is no message, because an earlier removal may yet be
                refused.
        """
        if not self._can_place():
            return KeyedChange(_UNPLACED, None, 0)
        key = self.topics.find(topic)
        return None if key is None else self.remove_key(key, even_if_absent=even_if_absent)

    def remove_key(self, key: bytes, *, even_if_absent: bool = False) -> KeyedChange | None:
        """As `remove`, by the key of a record that was read."""
        base = None if self._pending.get(key) is not None else self._base(key)
        if base is not None and base[0] == ABSENT and not even_if_absent:
            return None
        self._next_time()
        return self._add(KeyedChange(key, None, 0), base)

    def commit(self, changes: Sequence[KeyedChange]) -> None:
        """Write changes and wait for the disk."""
        self.write(changes)
        self._store.sync()

    def write(self, changes: Sequence[KeyedChange]) -> None:
        """Write changes, all or none."""
        newest = {change.key: change for change in changes}
        try:
            if _UNPLACED in newest:
                raise self._unplaced_for or StorageClosedError(
                    "it was not open when it was to be changed", database=self.name, path=self.path
                )
            self._store.usable()  # which may open it again, and find what it has
            # One that is not pending any more was replaced by one that is written already.
            going = [change for key, change in newest.items() if self._pending.get(key) is not None]
            if going:
                self._write(going)
        except StorageBusyError:
            raise
        except StorageError:
            self._pending.refused(changes)
            self._swept_us = 0  # what they would have taken away is due again
            raise

    def committed(self) -> None:
        """What was written is durable; no reader waits for it here."""

    def _next_time(self) -> int:
        """A time for a change, above that of every earlier one."""
        self.last_time = max(self._clock(), self.last_time + 1)
        return self.last_time

    def _add(self, change: KeyedChange, base: Base | None) -> KeyedChange:
        if base is None:
            base = self._base(change.key) if self._pending.get(change.key) is None else (ABSENT, 0)
        self._pending.add(change, base)
        return change

    def _write(self, changes: Sequence[KeyedChange]) -> None:
        batch = new_batch()
        self.topics.stage(batch)
        messages, size_bytes, earliest_us = self._messages, self._bytes, _NEVER
        for change in changes:
            pending = self._pending.get(change.key)
            assert pending is not None
            change.base = pending.base
            if change.base[1]:
                due_key = records_of.due_key(change.base[1], change.key)
                batch.delete(due_key)
                self._removed_due.add(due_key)
            if change.record is None:
                batch.delete(change.key)
                self._removed.add(change.key)
            else:
                batch.put(change.key, change.record)
                if change.expires_us:
                    batch.put(records_of.due_key(change.expires_us, change.key), b"")
                    earliest_us = min(earliest_us, change.expires_us)
            messages += change.messages
            size_bytes += change.bytes
        batch.put(records_of.COUNTS, records_of.pack_counts(messages, size_bytes, self.last_time))
        self._store.write(batch)
        self.topics.written()
        self._messages, self._bytes = messages, size_bytes
        self._swept_us = min(self._swept_us, earliest_us)
        for change in changes:
            self._pending.written(change)
        for removed in (self._removed, self._removed_due):
            if removed.count >= max(_REMAINS_MIN, messages // _REMAINS_PART):
                self._store.free([removed.take()])

    def _can_place(self) -> bool:
        """Whether the topic structure is known, without which no topic has a key."""
        if not self.topics.is_loaded:
            try:
                self._store.usable()
            except StorageError as error:
                self._unplaced_for = error
        return self.topics.is_loaded

    def _base(self, key: bytes) -> Base:
        """What RocksDB has under a key; where it cannot be read, nothing that would count."""
        try:
            with self._store.reading() as rocks:
                return _base_of(rocks.get(key))
        except StorageError:
            return ABSENT, 0

    def _prepare(self, rocks: Rdict) -> None:
        """Read what a newly opened RocksDB says of itself, or say it."""
        meta_key, layout_key = records_of.layout_keys()
        if rocks.get(meta_key) is None:
            self._store.check_is_new(rocks)
            batch = new_batch()
            for key, value in records_of.layout_record(self.name, self._options.wildcard_thresholds, self._next_time()):
                batch.put(key, value)
            rocks.write(batch)
        layout = records_of.read_layout(rocks.get(meta_key), rocks.get(layout_key))
        if not layout.thresholds:
            known = f"{records_of.LAYOUT} {records_of.LAYOUT_VERSION}"
            problem = f"its layout is {layout.described!r}, and this version knows {known!r}"
            raise UnknownLayoutError(problem, database=self.name, path=self.path)
        try:
            self.topics.load(rocks, layout.thresholds)
        except ValueError as error:
            raise StorageDamagedError(f"its topic structure: {error}", database=self.name, path=self.path) from error
        self.opened += 1
        self._messages, self._bytes, last_time = records_of.unpack_counts(rocks.get(records_of.COUNTS))
        self.last_time = max(self.last_time, last_time)
        self._swept_us = 0
        self._pending.rebase(lambda key: _base_of(rocks.get(key)))

    def __repr__(self) -> str:
        return f"KeyedTable({self._store!r}, {len(self)} messages)"


def _base_of(record: bytes | None) -> Base:
    return (ABSENT, 0) if record is None else (len(record), records_of.times(record).expires_us)
