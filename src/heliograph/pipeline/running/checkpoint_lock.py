"""The lock on a checkpoint directory: one driver at a time, the Java process that it leaves behind included.

The lock is the kernel's (`flock`), so it ends with the last process that has the file open, however that ends. The text
of the file only says who took it, for messages: process and host.
"""

import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from heliograph.pipeline.errors import CheckpointInUseError, OptionError

_log = logging.getLogger(__name__)

_LOCK_FILE: Final = "driver.lock"
_QUERY_LOCK_FILE: Final = "query.lock"
_TEXT_MAX: Final = 300
_POLL_S: Final = 0.25
_LOCK_WAIT_S: Final = 60.0
_PROCESSES: Final = Path("/proc")


class QueryLock:
    """The lock on the checkpoint of one query: one engine at a time, Spark's driver or the action runner.

    It ends with `release`, or with the process.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def __repr__(self) -> str:
        return f"QueryLock({self._directory.name!r}, {'free' if self._descriptor is None else 'taken'})"

    def try_take(self) -> bool:
        """Whether it is taken now, or was before."""
        if self._descriptor is not None:
            return True
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / _QUERY_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not _try_lock(descriptor):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def take(self) -> None:
        """Take it.

        Raises:
            CheckpointInUseError: Another engine has it.
        """
        if not self.try_take():
            raise CheckpointInUseError(f"another engine still has the checkpoint {self._directory}")

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def checkpoint_lock(directory: Path, wait_s: float = _LOCK_WAIT_S) -> Iterator[int]:
    """Hold a checkpoint directory for this driver alone; yields the descriptor to pass on to Spark's Java process.

    The lock lasts until the last holder of the descriptor has ended. A driver that is killed leaves its Java process
    behind for a moment, which may still write; since it holds the descriptor too, the next driver waits for its end.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise OptionError(
            "--checkpoint", str(directory), f"a directory that can be written ({error.strerror})"
        ) from error
    try:
        _take(descriptor, directory, wait_s)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def running_driver(directory: Path) -> int | None:
    """The driver that holds a checkpoint directory; None where none does, or only what one left behind."""
    try:
        # For reading: a user who may read the figures of a pipeline may also ask whether it runs.
        descriptor = os.open(directory / _LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if _try_lock(descriptor, fcntl.LOCK_SH):
            return None
        process, host = _holder(descriptor)
        is_here = host in ("", socket.gethostname())
        return process if process is None or not is_here or _is_driver(process, descriptor) else None
    finally:
        os.close(descriptor)


def _take(descriptor: int, directory: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    is_logged = False
    while not _try_lock(descriptor):
        process, host = _holder(descriptor)
        is_here = host in ("", socket.gethostname())
        if is_here and process is not None and _is_driver(process, descriptor):
            raise CheckpointInUseError(
                f"the checkpoint {directory} is in use by another pipeline driver (process {process}): stop it, or "
                "give this one another --checkpoint"
            )
        if time.monotonic() > deadline:
            raise CheckpointInUseError(_who_stays(descriptor, directory, process, "" if is_here else host))
        if not is_logged:
            is_logged = True
            _log.info("waiting for what process %s left behind at the checkpoint %s", process, directory)
        time.sleep(_POLL_S)  # a wait for the lock itself could not end at a deadline


def _who_stays(descriptor: int, directory: Path, process: int | None, host: str) -> str:
    if host:
        return (
            f"the checkpoint {directory} is in use by another pipeline driver (process {process} on {host}): stop it, "
            "or give this one another --checkpoint"
        )
    left = [each for each in _all_processes() if each != os.getpid() and _has_open(each, descriptor)]
    who = f"process {', '.join(map(str, left))}" if left else "a process that cannot be seen from here"
    return (
        f"the checkpoint {directory} is still in use by {who}, left behind by a pipeline driver that has ended "
        f"(process {process}): end it, or give this one another --checkpoint"
    )


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> tuple[int | None, str]:
    """Process and host that took the lock last, as far as the file says."""
    process, _, host = os.pread(descriptor, _TEXT_MAX, 0).decode("utf-8", "replace").strip().partition(" ")
    return (int(process) if process.isascii() and process.isdigit() else None), host


def _is_driver(process: int, descriptor: int) -> bool:
    """Whether a process that took the lock lives and has the file open; where that cannot be seen, whether it lives.

    Numbers of processes are used again: that one lives says nothing about the driver that had the number.
    """
    has_open = _has_open(process, descriptor)
    return _is_alive(process) if has_open is None else has_open


def _has_open(process: int, descriptor: int) -> bool | None:
    """Whether a process other than this one has the file of a descriptor open; None if that cannot be seen."""
    wanted, own = os.fstat(descriptor), str(descriptor) if process == os.getpid() else None
    try:
        files = list((_PROCESSES / str(process) / "fd").iterdir())
    except PermissionError:
        return None
    except FileNotFoundError:
        return False if _PROCESSES.is_dir() else None
    return any(_is_file(file, wanted) for file in files if file.name != own)


def _is_file(file: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(file.stat(), wanted)
    except OSError:  # closed meanwhile, or out of reach
        return False


def _all_processes() -> list[int]:
    if not _PROCESSES.is_dir():
        return []
    return sorted(int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit())


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # One that has ended, and whose parent has not waited for it yet, has a number still.
    try:
        status = (_PROCESSES / str(process) / "stat").read_text(errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[:1] != ["Z"]
