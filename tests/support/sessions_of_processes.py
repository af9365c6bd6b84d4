"""Finds processes by what has started them and by their session, as Linux tells them in `/proc`."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def children_of(pid: int, word: str = "") -> list[int]:
    """The processes that a process has started, of those whose command line holds a word."""
    return [one for one, fields in _all() if int(fields[1]) == pid and word in _command(one)]


def below(pid: int, word: str) -> list[int]:
    """The processes that a process has started, or one of these, at any depth, whose command line holds a word."""
    parents = {one: int(fields[1]) for one, fields in _all()}
    found = []
    for one in parents:
        above = parents[one]
        while above not in (0, pid):
            above = parents.get(above, 0)
        if above == pid and word in _command(one):
            found.append(one)
    return found


def in_session(leader: int) -> list[int]:
    """The processes of a session that live: a process that began it, and what this has started."""
    return [one for one, fields in _all() if int(fields[3]) == leader and fields[0] not in "ZX"]


def _all() -> Iterator[tuple[int, list[str]]]:
    """Each process with its state, parent, group, session and so on."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with suppress(OSError):
                yield int(directory.name), (directory / "stat").read_text().rpartition(")")[2].split()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
