"""The memory limit and the resident memory of the process, from the operating system."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from heliograph.settings.units import Percentage

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# What a cgroup of version 1 without a limit says is of this size or more.
_NO_LIMIT: Final = 1 << 60


class Resident(NamedTuple):
    """What a process has in memory.

    Attributes:
        all_bytes: All of it.
        own_bytes: That without pages of files, which are the program and its libraries.
    """

    all_bytes: int
    own_bytes: int


def resident() -> Resident:
    """What this process has in memory."""
    with Path("/proc/self/statm").open("rb") as statm:
        _, pages, of_files, *_ = statm.read().split()
    return Resident(int(pages) * _PAGE_BYTES, (int(pages) - int(of_files)) * _PAGE_BYTES)


def limit_bytes(setting: int | Percentage | None, root: Path = Path("/")) -> int | None:
    """The limit of `node.memory_limit` in bytes; None for no limit.

    Args:
        setting: A size, a part of the machine's memory or of the cgroup's limit, whichever is less, or None.
        root: Where `proc` and `sys` are.
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
    """The limits of the cgroup and of those above it, of either version."""
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
