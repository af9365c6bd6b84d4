"""A disk that exists only in a simulation: RocksDB as storage uses it, with a log, page cache, faults and power cuts.

A **volume** is the directory of one RocksDB. What its tables hold is on the disk. What was written since lies in log
files, whose newest part is only in the system's page cache until it is synced. `crash` is what a start finds then:
after `kill -9` everything that was written, after a power cut any beginning of what was not synced, whole batches in
their order, since RocksDB stops at the first record of its log that is torn or missing.
"""

import bisect
import errno
import os
import random
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

from heliograph.storage.disk import Aside, Disk
from heliograph.storage.engine import Rdict
from heliograph.storage.wal import LogFiles

MARKER: Final = re.compile(rb"<[a-z]+-[0-9]+>")

_FULL: Final = "IO error: No space left on device: While appending to file: {}: No space left on device"
_FAILED: Final = "IO error: Input/output error: While appending to file: {}: Input/output error"
_STALLED: Final = "Operation aborted: Write stall"
_CLOSED: Final = "DB instance already closed"

Change = tuple[bytes, bytes | None, bytes | None]  # key and value; key and None; lower and upper of a range


class FakeBatch:
    """A write batch that can be read."""

    def __init__(self, raw_mode: bool = True) -> None:
        self.changes: list[Change] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.changes.append((bytes(key), bytes(value), None))

    def delete(self, key: bytes) -> None:
        self.changes.append((bytes(key), None, None))

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        self.changes.append((bytes(lower), None, bytes(upper)))

    def len(self) -> int:
        return len(self.changes)

    def __len__(self) -> int:
        return len(self.changes)


class Records:
    """Sorted records; an iterator sees them as they were when it was made."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self.values = dict(values)
        self.keys = sorted(values)
        self._walks: weakref.WeakSet[Walk] = weakref.WeakSet()

    def walk(self) -> "Walk":
        walk = Walk(self.keys, self.values)
        self._walks.add(walk)
        return walk

    def apply(self, changes: list[Change]) -> None:
        if self._walks:
            self.values, self.keys = dict(self.values), list(self.keys)
            self._walks.clear()
        for key, value, upper in changes:
            if value is not None:
                if key not in self.values:
                    bisect.insort(self.keys, key)
                self.values[key] = value
            elif upper is not None:
                first, end = bisect.bisect_left(self.keys, key), bisect.bisect_left(self.keys, upper)
                for one in self.keys[first:end]:
                    del self.values[one]
                del self.keys[first:end]
            elif self.values.pop(key, None) is not None:
                del self.keys[bisect.bisect_left(self.keys, key)]


class Walk:
    """An iterator of RocksDB."""

    def __init__(self, keys: list[bytes], values: dict[bytes, bytes]) -> None:
        self._keys = keys
        self._values = values
        self._at = -1

    def seek(self, key: bytes) -> None:
        self._at = bisect.bisect_left(self._keys, key)

    def seek_for_prev(self, key: bytes) -> None:
        self._at = bisect.bisect_right(self._keys, key) - 1

    def seek_to_first(self) -> None:
        self._at = 0

    def seek_to_last(self) -> None:
        self._at = len(self._keys) - 1

    def valid(self) -> bool:
        return 0 <= self._at < len(self._keys)

    def key(self) -> bytes:
        return self._keys[self._at]

    def value(self) -> bytes:
        return self._values[self._keys[self._at]]

    def next(self) -> None:
        self._at += 1

    def prev(self) -> None:
        self._at -= 1

    def status(self) -> None:
        """Nothing on this disk is damaged."""


class Log:
    """One log file."""

    def __init__(self, number: int) -> None:
        self.name = f"{number:06d}.log"
        self.batches: list[list[Change]] = []
        self.synced = 0  # so many batches are on the disk,
        self.is_named = False  # if the directory says that the file exists
        self.hole: int | None = None  # the batch from which on a failed sync has dropped pages that look clean

    @property
    def durable(self) -> int:
        """How many batches no power cut takes."""
        if not self.is_named:
            return 0
        return self.synced if self.hole is None else min(self.synced, self.hole)


class Volume:
    """The directory of one RocksDB, whether it is open or not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: dict[bytes, bytes] = {}
        self.logs: list[Log] = []
        self.number = 0
        self.durable: set[bytes] = set()  # the markers in what no power cut takes
        self._harvested = 0

    def begin_log(self) -> None:
        self.number += 1
        self.logs.append(Log(self.number))

    def settle(self, count: int) -> None:
        """Tables have what the oldest logs hold; these are removed."""
        done, self.logs = self.logs[:count], self.logs[count:]
        records = Records(self.tables)
        for log in done:
            for changes in log.batches:
                records.apply(changes)
                self._note(changes)
        self.tables = records.values
        self._harvested = 0
        self.harvest()

    def harvest(self) -> None:
        """Note what has become durable."""
        seen = 0
        for log in self.logs:
            for changes in log.batches[: log.durable]:
                seen += 1
                if seen > self._harvested:
                    self._note(changes)
            if log.durable < len(log.batches):
                break
        self._harvested = max(self._harvested, seen)

    def lose_power(self, chance: random.Random) -> int:
        """Keep a beginning of what was written; how many batches are lost."""
        lost, is_torn = 0, False
        records = Records(self.tables)
        for log in self.logs:
            safe, end = log.durable, len(log.batches)
            if log.hole is not None:
                end = min(end, log.hole)
            kept = 0 if is_torn else safe if chance.random() < 0.5 else chance.randint(safe, max(safe, end))
            for changes in log.batches[:kept]:
                records.apply(changes)
                self._note(changes)
            lost += len(log.batches) - kept
            is_torn = is_torn or kept < len(log.batches)
        self.tables, self.logs, self._harvested = records.values, [], 0
        return lost

    def _note(self, changes: list[Change]) -> None:
        for _, value, _ in changes:
            if value is not None:
                self.durable.update(MARKER.findall(value))


class FakeRocks:
    """A RocksDB that is open."""

    def __init__(self, disk: "SimulatedDisk", volume: Volume) -> None:
        self._disk = disk
        self._process = disk.process
        self._volume = volume
        volume.settle(len(volume.logs))  # as RocksDB does after it has read its log
        volume.begin_log()
        self._records = Records(volume.tables)
        self._version = 1
        self._log_batches_max = disk.chance.choice((3, 20, 200))
        self._is_closed = False
        self._failure = ""

    def get(self, key: bytes) -> bytes | None:
        self._check_open()
        return self._records.values.get(key)

    def iter(self) -> Walk:
        self._check_open()
        return self._records.walk()

    def write(self, batch: FakeBatch) -> None:
        self._check_open()
        disk, volume, chance = self._disk, self._volume, self._disk.chance
        if self._failure:
            raise Exception(self._failure)
        if disk.stalls and chance.random() < disk.stalls:
            raise Exception(_STALLED)
        if len(volume.logs[-1].batches) >= self._log_batches_max:
            volume.begin_log()
            self._version += 1
        failure = disk.failure(volume)
        if failure:
            self._failure = failure
            if chance.random() < 0.3:  # the last byte came to the disk before the error
                volume.logs[-1].batches.append(batch.changes)
            raise Exception(failure)
        volume.logs[-1].batches.append(batch.changes)
        self._records.apply(batch.changes)
        if len(volume.logs) > 1 and chance.random() < 0.3:  # the flush of an older memtable is done
            volume.settle(1)
            self._version += 1

    def flush(self) -> None:
        self._check_open()
        if self._failure or (failure := self._disk.failure(self._volume)):
            self._failure = self._failure or failure
            raise Exception(self._failure)
        self._volume.settle(len(self._volume.logs))
        self._volume.begin_log()
        self._version += 1

    def property_int_value(self, name: str) -> int:
        if name != "rocksdb.current-super-version-number":
            return 0  # what its caches take
        return self._version

    def set_write_options(self, options: object) -> None:
        """Nothing here depends on them."""

    def compact_range(self, lower: bytes, upper: bytes) -> None:
        """It changes nothing that can be read."""

    def cancel_all_background(self, wait: bool) -> None:
        """There is nothing in the background."""

    def close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed or self._disk.process != self._process:
            raise Exception(_CLOSED)


class _Aside:
    def __init__(self, target: Callable[[], None], later: Callable[[Callable[[], None]], None]) -> None:
        self._target = target
        self._later = later
        self._is_done = False

    def start(self) -> None:
        self._later(self.join)

    def join(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._target()


class SimulatedDisk(Disk):
    """The disk of a simulated machine.

    Args:
        chance: What decides faults and what a power cut takes.
        later: Has something happen beside the event loop, some time later; lost with the process.
        now_us: The time.

    Attributes:
        is_full: Writes fail for want of room.
        write_errors: How likely a write fails for another reason;
        sync_errors: a sync;
        stalls: a write is refused for the moment.
        faults: How often any of it has happened,
        fault_us: and when it did last.
    """

    def __init__(
        self, chance: random.Random, later: Callable[[Callable[[], None]], None], now_us: Callable[[], int]
    ) -> None:
        self.chance = chance
        self._now_us = now_us
        self._later = later
        self.volumes: dict[str, Volume] = {}
        self.is_full = False
        self.write_errors = 0.0
        self.sync_errors = 0.0
        self.stalls = 0.0
        self.faults = 0
        self.fault_us = -1_000_000_000
        self.process = 0
        self._descriptors: dict[int, Log | Volume] = {}
        self._next_descriptor = 1000

    # --- as storage uses it

    def open(self, path: Path, compression: str) -> Rdict:
        volume = self.volumes.get(str(path))
        if volume is None:
            volume = self.volumes[str(path)] = Volume(path)
        if failure := self.failure(volume):
            raise Exception(failure)
        return cast("Rdict", FakeRocks(self, volume))

    def is_there(self, path: Path) -> bool:
        return str(path) in self.volumes

    def log_files(self, path: Path) -> LogFiles:
        return LogFiles(path)

    def table_bytes(self, path: Path) -> int:
        return sum(len(key) + len(value) for key, value in self.volumes[str(path)].tables.items())

    def aside(self, target: Callable[[], None], name: str) -> Aside:
        return _Aside(target, self._later)

    # --- as the log's files are used

    def system(self) -> SimpleNamespace:
        """What `import os` gives the module that syncs logs."""
        return SimpleNamespace(
            path=os.path,
            O_RDONLY=os.O_RDONLY,
            O_DIRECTORY=os.O_DIRECTORY,
            open=self._open_file,
            close=self._descriptors.pop,
            listdir=lambda path: [log.name for log in self.volumes[str(path)].logs] + ["CURRENT"],
            fdatasync=self._sync_log,
            fsync=self._sync_directory,
        )

    def _open_file(self, path: str | Path, flags: int) -> int:
        volume = self.volumes.get(str(path))
        self._next_descriptor += 1
        if volume is not None:
            self._descriptors[self._next_descriptor] = volume
            return self._next_descriptor
        folder, name = os.path.split(path)
        for log in self.volumes[folder].logs:
            if log.name == name:
                self._descriptors[self._next_descriptor] = log
                return self._next_descriptor
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def _sync_log(self, descriptor: int) -> None:
        log = self._descriptors[descriptor]
        assert isinstance(log, Log)
        if self.sync_errors and self.chance.random() < self.sync_errors:
            self._note_fault()
            if log.synced < len(log.batches) and self.chance.random() < 0.7:
                hole = self.chance.randrange(log.synced, len(log.batches))
                log.hole = hole if log.hole is None else min(log.hole, hole)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        log.synced = len(log.batches)
        self._harvest()

    def _sync_directory(self, descriptor: int) -> None:
        volume = self._descriptors[descriptor]
        assert isinstance(volume, Volume)
        for log in volume.logs:
            log.is_named = True
        volume.harvest()

    def _harvest(self) -> None:
        for volume in self.volumes.values():
            volume.harvest()

    # --- as the simulation uses it

    def failure(self, volume: Volume) -> str:
        """What RocksDB says of a write now; empty if nothing."""
        if self.is_full:
            self._note_fault()
            return _FULL.format(volume.path)
        if self.write_errors and self.chance.random() < self.write_errors:
            self._note_fault()
            return _FAILED.format(volume.path)
        return ""

    def _note_fault(self) -> None:
        self.faults += 1
        self.fault_us = self._now_us()

    def heal(self) -> None:
        """No faults from now on."""
        self.is_full = False
        self.write_errors = self.sync_errors = self.stalls = 0.0

    def crash(self, *, power: bool) -> int:
        """The process is gone, or the whole machine; how many batches the disk never had."""
        self.process += 1
        self._descriptors.clear()
        if not power:
            return 0
        return sum(volume.lose_power(self.chance) for volume in self.volumes.values())

    def has(self, name: str, marker: bytes) -> bool:
        """Whether no power cut takes a message from the database of a name."""
        return any(volume.path.name == name and marker in volume.durable for volume in self.volumes.values())
