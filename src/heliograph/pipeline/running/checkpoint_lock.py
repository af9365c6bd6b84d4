"""The lock on a checkpoint directory: one driver at a time, the Java process that it leaves behind included."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from heliograph.pipeline.errors import CheckpointInUseError, OptionError

_LOCK_FILE: Final = "driver.lock"
_POLL_S: Final = 0.25
_LOCK_WAIT_S: Final = 60.0


@contextmanager
def checkpoint_lock(directory: Path, wait_s: float = _LOCK_WAIT_S) -> Iterator[int]:
    """Hold a checkpoint directory for this driver alone; yields the descriptor to pass on to Spark's Java process.

    The lock lasts until the last holder of the descriptor has ended. A driver that is killed leaves its Java process
    behind for a moment, which may still write; since it holds the descriptor too, the next driver waits for its end.

    Raises:
        CheckpointInUseError: Another driver holds the directory.
        OptionError: It cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise OptionError(
            "--checkpoint", str(directory), f"a directory that can be written ({error.strerror})"
        ) from error
    try:
        deadline = time.monotonic() + wait_s
        while not _try_lock(descriptor):
            holder = _holder(descriptor)
            if time.monotonic() > deadline or _is_alive(holder):
                raise CheckpointInUseError(
                    f"the checkpoint {directory} is in use by another pipeline driver (process {holder}): stop it, or "
                    "give this one another --checkpoint"
                )
            time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def running_driver(directory: Path) -> int | None:
    """The process that holds a checkpoint directory; None where none does."""
    try:
        descriptor = os.open(directory / _LOCK_FILE, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        return None if _try_lock(descriptor) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0)
    return int(text) if text.isdigit() else None


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
