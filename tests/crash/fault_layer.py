"""The disk that fails, as the harness sees it: it builds `faults.c`, switches it and reads what it counted.

The control file outlives the node, so it also knows what a power failure would leave of the files of one that died.
"""

import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

SOURCE: Final = Path(__file__).with_name("faults.c")
COUNTERS: Final = (
    "writes",
    "syncs",
    "short_writes",
    "write_errors",
    "full_errors",
    "sync_errors",
    "deaths",
    "untracked",
)
INJECTED: Final = ("short_writes", "write_errors", "full_errors", "sync_errors")
_CHANCES: Final = struct.Struct("<4I")
_DIE_AFTER: Final = struct.Struct("<I")
_RANDOM: Final = struct.Struct("<Q")
_COUNTS: Final = struct.Struct(f"<{len(COUNTERS)}Q")
_SLOT: Final = struct.Struct("<QQqQ")  # inode, inode of its directory, durable bytes, flags
_DIE_AFTER_AT: Final = 16
_RANDOM_AT: Final = 24
_COUNTS_AT: Final = 32
_SLOTS_AT: Final = 4096
_SLOTS: Final = 4096
_UNLINKED: Final = 2


class FaultLayerError(Exception):
    """The layer cannot be built here, or did not see a file; the message says which."""


def build(directory: Path) -> Path:
    """Compile the layer.

    Raises:
        FaultLayerError: There is no C compiler, or it fails.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise FaultLayerError("disk faults need a C compiler (cc), and there is none")
    library = directory / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl", "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FaultLayerError(f"{SOURCE.name} does not compile here: {done.stderr.strip()}")
    return library


class FaultLayer:
    """One disk with its faults. Owned by a run; used by every life of its node.

    Args:
        library: What `build` made.
        control: Where the file through which it is switched goes.
        data_dir: Below it, files fail.
        seed: What chance begins with.
    """

    def __init__(self, library: Path, control: Path, data_dir: Path, seed: int) -> None:
        self._library = library
        self._control = control
        self._data_dir = data_dir.resolve()
        self._file = control.open("w+b")
        self._file.truncate(_SLOTS_AT + _SLOTS * _SLOT.size)
        self._map = mmap.mmap(self._file.fileno(), 0)
        _RANDOM.pack_into(self._map, _RANDOM_AT, seed & (2**64 - 1))

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to have its disk fail."""
        return {
            "LD_PRELOAD": str(self._library),
            "HELIOGRAPH_FAULTS_CONTROL": str(self._control),
            "HELIOGRAPH_FAULTS_DIR": str(self._data_dir),
        }

    def fail(
        self, *, short_write: float = 0.0, write_error: float = 0.0, full: float = 0.0, sync_error: float = 0.0
    ) -> None:
        """From now on let writes and syncs fail with these probabilities; without any, no more."""
        chances = [int(chance * 1_000_000) for chance in (short_write, write_error, full, sync_error)]
        _CHANCES.pack_into(self._map, 0, *chances)

    def die_after(self, calls: int) -> None:
        """Let the process die at so many writes and syncs from now; 0 for never."""
        _DIE_AFTER.pack_into(self._map, _DIE_AFTER_AT, calls)

    def counts(self) -> dict[str, int]:
        """What it saw and did."""
        return dict(zip(COUNTERS, _COUNTS.unpack_from(self._map, _COUNTS_AT), strict=True))

    def fail_power(self, choose: Random) -> int:
        """Leave of every log file what a power failure might: all that was synced, and a part of the rest by chance.

        Called while no node runs.

        Returns:
            How many bytes were lost.

        Raises:
            FaultLayerError: There is a log file that the layer did not see.
        """
        slots = self._slots()
        lost = 0
        for path in sorted(self._data_dir.glob("*/*/*.log")):
            found = path.stat()
            if found.st_ino not in slots and not found.st_size:
                path.unlink()  # the node died between its creation and its entry here: no byte is in it yet
                continue
            if found.st_ino not in slots:
                raise FaultLayerError(f"{path} was written without the fault layer noticing")
            at, (_, _, durable, flags) = slots[found.st_ino]
            if flags & _UNLINKED and choose.random() < 0.5:  # its name may have reached the disk or not
                lost += found.st_size
                path.unlink()
                continue
            least = min(durable, found.st_size)  # RocksDB cuts off what a short write left when it closes a file
            kept = least if choose.random() < 0.5 else choose.randint(least, found.st_size)
            lost += found.st_size - kept
            os.truncate(path, kept)
            # After the failure the file is what the disk has of it.
            _SLOT.pack_into(self._map, at, found.st_ino, path.parent.stat().st_ino, kept, 0)
        return lost

    def close(self) -> None:
        """Give the file back."""
        self._map.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _slots(self) -> dict[int, tuple[int, tuple[int, int, int, int]]]:
        found: dict[int, tuple[int, tuple[int, int, int, int]]] = {}
        for at in range(_SLOTS_AT, len(self._map), _SLOT.size):
            slot = _SLOT.unpack_from(self._map, at)
            if slot[0]:
                found[slot[0]] = at, slot
        return found
