"""The memory limit of the process, its resident memory, and what lies free inside its allocators.

Such memory is resident and unused. Neither allocator says which of its free pages went back to the system, so what
the C library has free is found from the other side: what is resident and unused. The interpreter says what it
has only in a table for people.
"""

import ctypes
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from heliograph.settings.units import Percentage

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


# What a cgroup of version 1 without a limit says is of this size or more.
_NO_LIMIT: Final = 1 << 60
_IN_OBJECTS: Final = re.compile(rb"^# bytes in allocated blocks += +([\d,]+)$", re.MULTILINE)
_ARENAS: Final = re.compile(rb"^(\d+) arenas \* (\d+) bytes/arena", re.MULTILINE)


class Resident(NamedTuple):
    """Bytes in memory; `own_bytes` are those without pages of files, which are the program and its libraries."""

    all_bytes: int
    own_bytes: int


def resident(pid: int | str = "self") -> Resident:
    """What a process has in memory. Raises `OSError` where it has ended."""
    with Path(f"/proc/{pid}/statm").open("rb") as statm:
        _, pages, of_files, *_ = statm.read().split()
    return Resident(int(pages) * _PAGE_BYTES, (int(pages) - int(of_files)) * _PAGE_BYTES)


def limit_bytes(setting: int | Percentage | None, root: Path = Path("/")) -> int | None:
    """The limit of `node.memory_limit` in bytes; None for no limit. `root` has `proc` and `sys`.

    Args:
        setting: A part is one of the machine's memory or of the cgroup's limit, whichever is less.
    """
    return int(_available(root) * setting.percent / 100) if isinstance(setting, Percentage) else setting


def _available(root: Path) -> int:
    least = _machine(root)
    for limit in _cgroup_limits(root):
        least = min(least, limit)
    return least


def _machine(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return _NO_LIMIT


def _cgroup_limits(root: Path) -> list[int]:
    """Those of the cgroup and of those above it, of either version."""
    limits = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folder, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        # In a container the path is often that of the host, and only the root is there.
        for count in range(len(parts), -1, -1):
            try:
                text = folder.joinpath(*parts[:count], name).read_text().strip()
            except OSError:
                continue
            if text.isdigit() and int(text) < _NO_LIMIT:
                limits.append(int(text))
    return limits


class _Mallinfo(ctypes.Structure):
    _fields_ = (
        *((f"_{number}", ctypes.c_size_t) for number in range(4)),
        ("mapped", ctypes.c_size_t),
        *((f"_{number}", ctypes.c_size_t) for number in range(5, 7)),
        ("in_use", ctypes.c_size_t),
        ("free", ctypes.c_size_t),
        ("_", ctypes.c_size_t),
    )


class Allocator:
    """The allocators of this process; owned by the memory contract."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        # What is resident and of neither allocator, less what they gave out and was not touched yet.
        self._beside_bytes = 0
        try:
            library = ctypes.CDLL(None)
            library.malloc_trim.argtypes = [ctypes.c_size_t]
            library.mallinfo2.restype = _Mallinfo
            library.open_memstream.restype = ctypes.c_void_p
            library.open_memstream.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)]
            library.fclose.argtypes = [ctypes.c_void_p]
            library.free.argtypes = [ctypes.c_void_p]
            ctypes.pythonapi._PyObject_DebugMallocStats.argtypes = [ctypes.c_void_p]
        except (OSError, AttributeError):
            return  # another C library or interpreter: nothing is known to be free
        self._library = library
        arenas, _ = _object_bytes(library)
        info = library.mallinfo2()
        unused = resident().own_bytes - arenas - info.mapped - info.in_use
        self._beside_bytes = unused - max(0, min(int(info.free), unused))

    def trim(self) -> None:
        """Give memory that was freed back to the operating system; takes some milliseconds."""
        if self._library is not None:
            self._library.malloc_trim(0)

    def measure(self) -> tuple[Resident, int]:
        """What is resident now, and how much of it is free, or lost to how the interpreter divides memory."""
        library = self._library
        if library is None:
            return resident(), 0
        arenas, free_of_objects = _object_bytes(library)
        info, now = library.mallinfo2(), resident()
        unused = now.own_bytes - arenas - info.mapped - info.in_use - self._beside_bytes
        return now, max(0, min(int(info.free), unused)) + free_of_objects


def _object_bytes(library: ctypes.CDLL) -> tuple[int, int]:
    """What the interpreter's allocator for small objects has, and what of it holds none."""
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = library.open_memstream(ctypes.byref(text), ctypes.byref(size))
    if not stream:
        return 0, 0
    ctypes.pythonapi._PyObject_DebugMallocStats(stream)
    library.fclose(stream)
    table = ctypes.string_at(text, size.value)
    library.free(text)
    arenas, in_objects = _ARENAS.search(table), _IN_OBJECTS.search(table)
    if arenas is None or in_objects is None:
        return 0, 0
    arenas_bytes = int(arenas[1]) * int(arenas[2])
    return arenas_bytes, max(0, arenas_bytes - int(in_objects[1].replace(b",", b"")))
