"""The process that makes one backup beside a running node.

    python -m heliograph.storage.backup.worker < OPTIONS

Its first line of input is the options as JSON (`Wanted`). It answers with files when it has linked the databases; the
node then writes how they are (`Moment`); that goes on until the links are those of such a moment. It answers with what
the backup came to, or with an error. When its input ends, as it does when the node dies, it ends at once: no backup is
made, and the next one uses what was copied.

    python -m heliograph.storage.backup.worker list PLACE
    python -m heliograph.storage.backup.worker verify PLACE ID

It prints the backups of a place, a line of JSON for each, or one of them after it has read all of its content.
"""

import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from heliograph.storage.backup.capture import copy_others, link_offloaded, tidy_databases
from heliograph.storage.backup.copying import BackupOrigin, Copied, Pace, copy
from heliograph.storage.backup.errors import BackupFailedError
from heliograph.storage.backup.moment import LinkedDatabases, Positions
from heliograph.storage.backup.place import open_place
from heliograph.storage.backup.restoring import listed, verify
from heliograph.storage.errors import StorageError

_LINKINGS_MAX: Final = 200
_AGAIN_S: Final = 0.05
_PROGRESS_S: Final = 0.3


class Wanted(msgspec.Struct, frozen=True):
    """A backup to make; `work` is an empty directory below the data directory, and `tls_dir` is `node.tls_dir`."""

    data_dir: str
    work: str
    place: str
    origin: BackupOrigin
    rate: float | None
    keep: int | None
    tls_dir: str


class Moment(msgspec.Struct, frozen=True):
    """How the files of the databases are.

    Attributes:
        at: When, in microseconds since the epoch.
    """

    at: int
    files: Positions


class WorkerAnswer(msgspec.Struct, frozen=True):
    """A line of the process.

    Attributes:
        files: To look at now; empty in a line of another kind.
        done: Bytes of the backup that are in the place.
        total: How many that will be.
    """

    files: tuple[str, ...] = ()
    done: int = 0
    total: int = 0
    copied: Copied | None = None
    error: str = ""
    code: str = ""


def make(wanted: Wanted) -> Copied:
    """Make the backup."""
    data_dir, work = Path(wanted.data_dir), Path(wanted.work)
    place = open_place(wanted.place)
    with place.alone():
        place.sizes("backups")  # a place that cannot be used costs no linking
        link_offloaded(data_dir, work)
        databases = LinkedDatabases(data_dir, work)
        moment = _moment(databases)
        threading.Thread(target=_end_with_input, daemon=True).start()
        databases.complete(moment.files)
        link_offloaded(data_dir, work)
        copy_others(data_dir, work, secrets=wanted.origin.secrets, tls_dir=wanted.tls_dir)
        origin = replace(wanted.origin, at=moment.at)
        return copy(work, place, origin, tidy_databases(work), Pace(wanted.rate), wanted.keep, _Progress().note)


class _Progress:
    """Says how far the backup is, a few times a second."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def note(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _PROGRESS_S
            _write(WorkerAnswer(done=done, total=total))


def _moment(databases: LinkedDatabases) -> Moment:
    """Link the databases until none of them changed its tables meanwhile."""
    for _ in range(_LINKINGS_MAX):
        _write(WorkerAnswer(tuple(databases.link())))
        line = sys.stdin.buffer.readline()
        if not line:
            os._exit(1)
        moment = msgspec.json.decode(line, type=Moment)
        if databases.are_those_of(moment.files):
            return moment
        time.sleep(_AGAIN_S)  # a merge of tables may be under way
    raise BackupFailedError(
        f"the databases changed their tables {_LINKINGS_MAX} times while they were linked: the next attempt may find "
        "a quieter moment"
    )


def main() -> None:
    """Make the backup that standard input names, or say what a place has."""
    if sys.argv[1:]:
        _print(*sys.argv[1:])
        return
    os.umask(0o077)
    try:
        answer = WorkerAnswer(copied=make(msgspec.json.decode(sys.stdin.buffer.readline(), type=Wanted)))
    except StorageError as error:
        answer = WorkerAnswer(error=error.problem, code=error.code)
    except Exception as error:  # noqa: BLE001 - the node says it, with an alarm
        answer = WorkerAnswer(error=f"{type(error).__name__}: {error}", code=BackupFailedError.code)
    _write(answer)
    sys.stdout.flush()
    os._exit(0)  # a thread waits for input


def _print(action: str, place: str, name: str | None = None) -> None:
    out = sys.stdout.buffer
    try:
        opened = open_place(place)
        for row in listed(opened) if action == "list" else verify(opened, name):
            out.write(msgspec.json.encode({**msgspec.structs.asdict(row), "bytes": row.size}) + b"\n")
    except StorageError as error:
        out.write(msgspec.json.encode({"error": error.problem, "code": error.code}) + b"\n")


def _write(answer: WorkerAnswer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
