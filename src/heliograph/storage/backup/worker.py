"""The process that makes one backup beside a running node.

    python -m heliograph.storage.backup.worker < OPTIONS

Its first line of input is the options as JSON (`Wanted`). It answers `ready` when the place can be used; the node then
takes the checkpoint and writes a line; it answers with what the backup came to, or with an error. When its input ends,
as it does when the node dies, it ends at once: no backup is made, and the next one uses what was copied.

    python -m heliograph.storage.backup.worker list PLACE

It prints the backups of a place, a line of JSON for each.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec

from heliograph.storage.backup.capture import copy_others, link_offloaded
from heliograph.storage.backup.copying import BackupOrigin, Copied, Pace, copy
from heliograph.storage.backup.errors import BackupFailedError
from heliograph.storage.backup.place import open_place
from heliograph.storage.backup.restoring import listed
from heliograph.storage.errors import StorageError

_NICENESS: Final = 10


class Wanted(msgspec.Struct, frozen=True):
    """A backup to make; `work` is an empty directory below the data directory."""

    data_dir: str
    work: str
    place: str
    origin: BackupOrigin
    rate: float | None
    keep: int | None


class WorkerAnswer(msgspec.Struct, frozen=True):
    """A line of the process."""

    ready: bool = False
    copied: Copied | None = None
    error: str = ""
    code: str = ""


def make(wanted: Wanted) -> Copied:
    """Make the backup; waits for the checkpoint in between."""
    data_dir, work = Path(wanted.data_dir), Path(wanted.work)
    place = open_place(wanted.place)
    with place.alone():
        place.sizes("backups")  # a place that cannot be used costs no checkpoint
        link_offloaded(data_dir, work)
        _write(WorkerAnswer(ready=True))
        if not sys.stdin.buffer.readline():
            os._exit(1)
        threading.Thread(target=_end_with_input, daemon=True).start()
        link_offloaded(data_dir, work)
        copy_others(data_dir, work, secrets=wanted.origin.secrets)
        return copy(work, place, wanted.origin, Pace(wanted.rate), wanted.keep)


def main() -> None:
    """Make the backup that standard input names, or list a place."""
    if sys.argv[1:2] == ["list"]:
        _list(sys.argv[2])
        return
    os.nice(_NICENESS)
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


def _list(place: str) -> None:
    out = sys.stdout.buffer
    try:
        for row in listed(open_place(place)):
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
