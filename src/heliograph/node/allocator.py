"""What lies free inside the allocators of this process: the C library's, and the interpreter's for small objects.

Such memory is resident and nobody's. The interpreter says how much it has only in a table for people.
"""

import ctypes
import re
from collections.abc import Callable
from typing import Final

_POOLS: Final = re.compile(rb"(\d+) unused pools \* (\d+) bytes")
_BLOCKS: Final = re.compile(rb"# bytes in available blocks += +([\d,]+)")


class _Mallinfo(ctypes.Structure):
    _fields_ = (
        *((f"_{number}", ctypes.c_size_t) for number in range(8)),
        ("free", ctypes.c_size_t),
        ("_", ctypes.c_size_t),
    )


class Allocator:
    """The allocators of this process; owned by the memory contract.

    Args:
        resident: What the process has in memory.
    """

    def __init__(self, resident: Callable[[], int]) -> None:
        self._resident = resident
        self._given_back = 0  # of what is free in the C library's: what is not resident since it was trimmed
        self._library: ctypes.CDLL | None = None
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

    def trim(self) -> None:
        """Give memory that was freed back to the operating system: that takes some milliseconds."""
        if self._library is not None:
            before = self._resident()
            self._library.malloc_trim(0)
            self._given_back += max(0, before - self._resident())

    def free_bytes(self) -> int:
        """What is resident and free."""
        if self._library is None:
            return 0
        free = int(self._library.mallinfo2().free)
        self._given_back = min(self._given_back, free)
        return free - self._given_back + _free_for_objects(self._library)


def _free_for_objects(library: ctypes.CDLL) -> int:
    """What the interpreter's allocator for small objects has free."""
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = library.open_memstream(ctypes.byref(text), ctypes.byref(size))
    if not stream:
        return 0
    ctypes.pythonapi._PyObject_DebugMallocStats(stream)
    library.fclose(stream)
    table = ctypes.string_at(text, size.value)
    library.free(text)
    pools, blocks = _POOLS.search(table), _BLOCKS.search(table)
    if pools is None or blocks is None:
        return 0
    return int(pools[1]) * int(pools[2]) + int(blocks[1].replace(b",", b""))
