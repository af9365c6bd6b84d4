"""Files of rules that the API was given: each has the name of its content, so none that holds is overwritten."""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from heliograph.management.web.errors import ApiError

_KEPT: Final = 20  # revisions of the configuration name earlier ones
_BYTES_MAX: Final = 1 << 20


class AclFiles:
    """The files below one directory; owned by the application.

    Args:
        directory: Made when the first one is written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._new: dict[Path, int] = {}  # with the time of their last use, in nanoseconds since the epoch

    def write(self, rules: str) -> Path:
        """A file with these rules, which is on the disk.

        Raises:
            ApiError: 400, they are too long; 503, the disk does not take them.
        """
        data = rules.encode()
        if len(data) > _BYTES_MAX:
            raise ApiError(400, "BAD_REQUEST", f"the rules have {len(data):,} bytes; at most {_BYTES_MAX:,} are valid")
        path = self._directory / f"acl.{hashlib.sha256(data).hexdigest()[:16]}.conf"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            used_ns, is_new = time.time_ns(), not path.exists()
            if is_new:
                temporary = path.with_suffix(".new")
                with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                    out.write(data)
                    out.flush()
                    os.fsync(out.fileno())
                temporary.replace(path)
            os.utime(path, ns=(used_ns, used_ns))
            if is_new:
                self._new[path] = path.stat().st_mtime_ns
        except OSError as error:
            raise ApiError(503, "SERVICE_UNAVAILABLE", f"the rules cannot be written: {error}") from error
        self._remove_old(path)
        return path

    def remove_new(self, path: Path) -> None:
        """Remove a file whose rules were refused, unless it was there before, or another request uses it too."""
        used_ns = self._new.pop(path, None)
        with suppress(OSError):
            if path.stat().st_mtime_ns == used_ns:
                path.unlink()

    @staticmethod
    def text_of(path: str) -> str:
        """The rules of a file; empty where it cannot be read, as the default one that need not exist."""
        try:
            return Path(os.path.expandvars(path)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def _remove_old(self, used: Path) -> None:
        files = sorted(self._directory.glob("acl.*.conf"), key=lambda one: one.stat().st_mtime, reverse=True)
        for path in files[_KEPT:]:
            if path != used:
                path.unlink(missing_ok=True)
