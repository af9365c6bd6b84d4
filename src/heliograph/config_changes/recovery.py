"""What a process that ended in the middle of a change left behind, mended before a node reads its configuration."""

import fcntl
import time
from pathlib import Path
from typing import Final

from heliograph.config_changes.errors import ConfigWriteError
from heliograph.config_changes.files import ConfigFiles

_FILES: Final = ("configs", "cluster.hocon")
_LOCK: Final = "node.lock"


def recover(data_dir: Path) -> None:
    """Remove what never came to hold, and go back where a change was not confirmed in time.

    Nothing is done while a node uses the directory: what looks unfinished is its change.

    Raises:
        ConfigWriteError: The disk does not take that.
    """
    if not (data_dir / _FILES[0]).is_dir():
        return
    try:
        with open(data_dir / _LOCK, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            ConfigFiles(data_dir.joinpath(*_FILES)).recover(time.time())
    except OSError as error:
        raise ConfigWriteError(
            f"{data_dir / _FILES[0]} cannot be used: {error}. Mend it, or choose another data directory"
        ) from error
