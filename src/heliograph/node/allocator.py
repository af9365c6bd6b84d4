"""What lies free inside the allocators of this process: the C library's, and the interpreter's for small objects.

Such memory is resident and unused. Neither allocator says which of its free pages went back to the system, so what
the C library has free is found from the other side: what is resident and unused. The interpreter says what it
has only in a table for people.
"""

import ctypes
import re
from typing import Final

from heliograph.node.memory_limit import Resident, resident

_IN_OBJECTS: Final = re.compile(rb"^# bytes in allocated blocks += +([\d,]+)$", re.MULTILINE)
_ARENAS: Final = re.compile(rb"^(\d+) arenas \* (\d+) bytes/arena", re.MULTILINE)


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
        """Give memory that was freed back to the operating system: that takes some milliseconds."""
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
