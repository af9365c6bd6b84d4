"""A limit of memory that the kernel enforces: a cgroup for a process under test.

Making one takes a directory of a cgroup file system that is this user's to fill: `HELIOGRAPH_TEST_CGROUP` names it.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "HELIOGRAPH_TEST_CGROUP"
_LIMITS: Final = ("memory.max", "memory.limit_in_bytes")  # of the second version, and of the first


@contextlib.contextmanager
def memory_cgroup(bytes_max: int) -> Iterator[Path]:
    """A cgroup whose processes have so much memory together, with the page cache of their files; removed at the end.

    The test is skipped where none may be made.
    """
    parent = os.environ.get(VARIABLE)
    if not parent:
        pytest.skip(f"{VARIABLE} names no directory to make a cgroup in")
    cgroup = Path(parent) / f"heliograph-{os.getpid()}"
    cgroup.mkdir()
    try:
        limit = next((cgroup / name for name in _LIMITS if (cgroup / name).exists()), None)
        if limit is None:
            pytest.skip(f"the cgroups in {parent} have no memory controller")
        limit.write_text(str(bytes_max))
        yield cgroup
    finally:
        cgroup.rmdir()
