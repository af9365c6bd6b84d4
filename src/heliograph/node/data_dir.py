"""The data directory of a node: used by one process, readable by its user only, and it holds the node's number."""

import fcntl
import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, TextIO

from heliograph.config.settings import Config
from heliograph.node import announcements
from heliograph.parts import Part
from heliograph.storage.durable_files import write_durably

_log = logging.getLogger(__name__)

NUMBERS: Final = 1 << 15  # as many as message ids have room for
_NUMBER_FILE: Final = "node_number"
_FOLDERS: Final = ("storage", "state", "keyed")  # of a data directory, with what was published


class NodeError(Exception):
    """The message says why the node cannot start, and which setting to change."""

    code: ClassVar[str] = "node_data_dir"


class DataDirectory(Part):
    """Holds the data directory for this process from its start to its stop; owned by the node.

    Attributes:
        number: The node's number, a part of every message id; known from the start on.
    """

    name = "data_dir"
    roots = ("node.data_dir", "node.number")

    def __init__(self, config: Config) -> None:
        self._config = config
        self.path = Path(config.node.data_dir)
        self.number = 0
        self._lock: TextIO | None = None  # held open while this process owns the directory

    async def start(self) -> None:
        self._lock = _lock(self.path, 0o067 if self._config.node.control_group else 0o077)
        configured = self._config.node.number
        self.number = read_or_choose_number(self.path) if configured is None else configured
        announcements.tell_begin(self._config, self.path, self.number)

    async def stop(self) -> None:
        self.release()

    def release(self) -> None:
        """Close the lock; what else a process had open is closed with it."""
        if self._lock is not None:
            self._lock.close()


def read_or_choose_number(data_dir: Path) -> int:
    """The number that was chosen, at random, at a node's first start, which this may be.

    A disk that refuses it keeps no node from starting: the number then holds for this process.
    """
    file = data_dir / _NUMBER_FILE
    with suppress(OSError, ValueError):
        number = int(file.read_text("ascii"))
        if 0 <= number < NUMBERS:
            return number
    number = secrets.randbits(15)
    try:
        write_durably(file, f"{number}\n".encode())
    except OSError as error:
        _log.warning("the node has the number %d until it ends: %s cannot be written: %s", number, file, error.strerror)
    return number


def _lock(data_dir: Path, closed_to: int) -> TextIO:
    os.umask(0o077)  # what was published is for this user only
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        _close_to_others(data_dir, closed_to)
        lock = (data_dir / "node.lock").open("a")
    except OSError as error:
        raise NodeError(f"node.data_dir {str(data_dir)!r} cannot be used: {error.strerror}. Choose another") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        advice = "Stop it, or choose another directory with node.data_dir or --data-dir"
        raise NodeError(f"node.data_dir {str(data_dir)!r} is used by another node. {advice}") from error
    return lock


def _close_to_others(data_dir: Path, closed_to: int) -> None:
    """Such a directory is an earlier version's, or one made by hand."""
    if data_dir.stat().st_mode & closed_to == 0:
        return
    try:
        data_dir.chmod(0o700)
        for path in (one for folder in _FOLDERS for one in (data_dir / folder, *(data_dir / folder).rglob("*"))):
            if path.exists() and not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError as error:
        _log.warning("others may be able to read node.data_dir %s: %s", data_dir, error)
